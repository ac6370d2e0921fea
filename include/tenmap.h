/*
 * tenmap: model weights in the SafeTensors, GGUF and PyTorch formats, memory-mapped.
 *
 * A model is one file, an index with its shards, or a folder. All three open the same way and give
 * the same handle. Opening reads the header and no tensor data, except for the small tensors that
 * TENMAP_OPEN_DEQUANTIZE reads; tensors are views into the mapping.
 *
 * This header includes all headers of the library. Each can also be included alone:
 *
 *     tenmap/types.h       versions, status codes, element and metadata types, errors
 *     tenmap/convert.h     how elements convert; converting the caller's own buffers
 *     tenmap/io.h          models that are not files of this system
 *     tenmap/read.h        opening, inspecting, reading, loading, residency: what an engine needs
 *     tenmap/quantized.h   schemes, stored parts and packed codes of quantized weights
 *     tenmap/fingerprint.h digests that tell models and tensors apart
 *     tenmap/derive.h      models that are computed from tensors of other models
 *     tenmap/write.h       writing, editing and saving models
 *     tenmap/check.h       everything that is wrong or odd about a model
 *     tenmap/measure.h     statistics of tensors
 *
 * Read this first:
 *
 * - Every view (tenmap_tensor, tenmap_shard, tenmap_metadata, names, shapes, data) belongs to the
 *   model and lives until tenmap_close. Views are handed out one pointer at a time so that their
 *   structs can grow at the end. Never copy an array of them and never assume their sizeof.
 * - A model is immutable once it is open. Any number of threads may use it at the same time.
 *   tenmap_close needs exclusivity: no other call and no use of a view may run at the same time or
 *   afterwards.
 * - With TENMAP_BACKEND_MAP, `data` is the file itself. If another process truncates the file, or
 *   its storage fails, touching a lost page raises SIGBUS in the thread that touches it, even
 *   inside the library. If another process overwrites the file, the bytes change under you. No
 *   library can prevent either. Where files may shrink (network folders, downloads in progress),
 *   open with TENMAP_BACKEND_READ: every access is then a checked read, which returns TENMAP_ERR_IO
 *   instead. Replacing a file by rename is harmless: the model keeps the file that it opened.
 * - tenmap_open checks the header completely. A model that opened cannot make the library read
 *   outside its file, whatever its bytes are. What the tensors mean (values, names, the shapes that
 *   your architecture expects) is not checked.
 * - The library never prints, exits, aborts, or changes signals, the locale or the floating-point
 *   mode.
 * - After fork, the child may go on reading. Each process closes its own handle.
 * - A model holds one close-on-exec descriptor per shard until it is closed. Once it is open, no
 *   path is opened again.
 *
 * Units are bytes unless a name says otherwise. Every length that is a size_t may be TENMAP_CSTR,
 * for a NUL-terminated string, where the comment says so. Paths are UTF-8 on every system.
 *
 * The library can be built without some of its parts. Then compile programs with the same
 * definitions, so that the missing parts are not declared: TENMAP_NO_WRITE, TENMAP_NO_MEASURE and
 * TENMAP_NO_CHECK remove those functions; TENMAP_NO_AVX2 and TENMAP_NO_NEON only cost speed.
 */
#ifndef TENMAP_H
#define TENMAP_H

#include "tenmap/types.h"
#include "tenmap/convert.h"
#include "tenmap/io.h"
#include "tenmap/read.h"
#include "tenmap/quantized.h"
#include "tenmap/fingerprint.h"
#include "tenmap/derive.h"
#include "tenmap/write.h"
#include "tenmap/check.h"
#include "tenmap/measure.h"

#endif
