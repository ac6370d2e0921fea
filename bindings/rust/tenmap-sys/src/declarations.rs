// Written by scripts/rust-declarations.py from include/tenmap/*.h. Change those instead.

use core::ffi::{c_char, c_int, c_void};

pub const TENMAP_VERSION_MAJOR: u32 = 0;

pub const TENMAP_VERSION_MINOR: u32 = 1;

pub const TENMAP_VERSION_PATCH: u32 = 0;

/// The suffix of a pre-release, such as "rc1"; "" for a release.
pub const TENMAP_VERSION_SUFFIX: &core::ffi::CStr = c"rc1";

/// A handle, which is only reached by pointer.
#[repr(C)]
pub struct tenmap_model {
    _opaque: [u8; 0],
    _not_send: core::marker::PhantomData<*mut c_void>,
}

pub type tenmap_status = i32;

pub type tenmap_dtype = u32;

/// As a length: the string is NUL-terminated.
pub const TENMAP_CSTR: usize = usize::MAX;

/// What went wrong, for programs. tenmap_error has the message for people.
pub const TENMAP_OK: tenmap_status = 0;
/// NULL, unknown flag, bad struct_size
pub const TENMAP_ERR_ARGUMENT: tenmap_status = 1;
/// an allocation failed
pub const TENMAP_ERR_MEMORY: tenmap_status = 2;
/// the system refused (os_error), or the file changed
pub const TENMAP_ERR_IO: tenmap_status = 3;
/// the bytes break a rule
pub const TENMAP_ERR_FORMAT: tenmap_status = 4;
/// a limit of the library or the process
pub const TENMAP_ERR_LIMIT: tenmap_status = 5;
/// this pair of dtypes, this host, this backend
pub const TENMAP_ERR_UNSUPPORTED: tenmap_status = 6;
/// file, shard, tensor
pub const TENMAP_ERR_NOT_FOUND: tenmap_status = 7;
/// tenmap_view: the tensor has another dtype
pub const TENMAP_ERR_DTYPE: tenmap_status = 8;
/// tenmap_view: the data is not aligned for its element
pub const TENMAP_ERR_ALIGNMENT: tenmap_status = 9;
/// outside the tensor, the file (options.offset), an integer dtype
pub const TENMAP_ERR_RANGE: tenmap_status = 10;
/// destination too small
pub const TENMAP_ERR_BUFFER: tenmap_status = 11;
/// disk full, quota used up
pub const TENMAP_ERR_NO_SPACE: tenmap_status = 12;
pub const TENMAP_ERR_CANCELLED: tenmap_status = 13;

/// as an argument: the tensor's own dtype
pub const TENMAP_AS_STORED: tenmap_dtype = 0;
pub const TENMAP_BOOL: tenmap_dtype = 1;
/// E2M1, two per byte, low nibble first
pub const TENMAP_F4: tenmap_dtype = 2;
/// 6 bits: element i at bits 6i..6i+5 of a little-endian stream
pub const TENMAP_F6_E2M3: tenmap_dtype = 3;
/// likewise
pub const TENMAP_F6_E3M2: tenmap_dtype = 4;
pub const TENMAP_U8: tenmap_dtype = 5;
pub const TENMAP_I8: tenmap_dtype = 6;
pub const TENMAP_F8_E5M2: tenmap_dtype = 7;
pub const TENMAP_F8_E4M3: tenmap_dtype = 8;
pub const TENMAP_F8_E8M0: tenmap_dtype = 9;
pub const TENMAP_F8_E4M3FNUZ: tenmap_dtype = 10;
pub const TENMAP_F8_E5M2FNUZ: tenmap_dtype = 11;
pub const TENMAP_I16: tenmap_dtype = 12;
pub const TENMAP_U16: tenmap_dtype = 13;
pub const TENMAP_F16: tenmap_dtype = 14;
pub const TENMAP_BF16: tenmap_dtype = 15;
pub const TENMAP_I32: tenmap_dtype = 16;
pub const TENMAP_U32: tenmap_dtype = 17;
pub const TENMAP_F32: tenmap_dtype = 18;
/// two F32: real, imaginary
pub const TENMAP_C64: tenmap_dtype = 19;
pub const TENMAP_F64: tenmap_dtype = 20;
pub const TENMAP_I64: tenmap_dtype = 21;
pub const TENMAP_U64: tenmap_dtype = 22;
/// Block dtypes of GGUF files: a fixed number of elements shares scales and lies together in a
/// fixed number of bytes (tenmap_dtype_block). The values are 62 + the type's number in ggml.
pub const TENMAP_Q4_0: tenmap_dtype = 64;
pub const TENMAP_Q4_1: tenmap_dtype = 65;
pub const TENMAP_Q5_0: tenmap_dtype = 68;
pub const TENMAP_Q5_1: tenmap_dtype = 69;
pub const TENMAP_Q8_0: tenmap_dtype = 70;
pub const TENMAP_Q8_1: tenmap_dtype = 71;
pub const TENMAP_Q2_K: tenmap_dtype = 72;
pub const TENMAP_Q3_K: tenmap_dtype = 73;
pub const TENMAP_Q4_K: tenmap_dtype = 74;
pub const TENMAP_Q5_K: tenmap_dtype = 75;
pub const TENMAP_Q6_K: tenmap_dtype = 76;
pub const TENMAP_Q8_K: tenmap_dtype = 77;
pub const TENMAP_IQ2_XXS: tenmap_dtype = 78;
pub const TENMAP_IQ2_XS: tenmap_dtype = 79;
pub const TENMAP_IQ3_XXS: tenmap_dtype = 80;
pub const TENMAP_IQ1_S: tenmap_dtype = 81;
pub const TENMAP_IQ4_NL: tenmap_dtype = 82;
pub const TENMAP_IQ3_S: tenmap_dtype = 83;
pub const TENMAP_IQ2_S: tenmap_dtype = 84;
pub const TENMAP_IQ4_XS: tenmap_dtype = 85;
pub const TENMAP_IQ1_M: tenmap_dtype = 91;
pub const TENMAP_TQ1_0: tenmap_dtype = 96;
pub const TENMAP_TQ2_0: tenmap_dtype = 97;
pub const TENMAP_MXFP4: tenmap_dtype = 101;
pub const TENMAP_NVFP4: tenmap_dtype = 102;
pub const TENMAP_Q1_0: tenmap_dtype = 103;
/// an unknown dtype in a lenient open: bytes only
pub const TENMAP_OPAQUE: tenmap_dtype = 255;

/// The type of a metadata value: tenmap_metadata.type, tenmap_value.type. The numbers are GGUF's.
pub const TENMAP_VALUE_U8: u32 = 0;
pub const TENMAP_VALUE_I8: u32 = 1;
pub const TENMAP_VALUE_U16: u32 = 2;
pub const TENMAP_VALUE_I16: u32 = 3;
pub const TENMAP_VALUE_U32: u32 = 4;
pub const TENMAP_VALUE_I32: u32 = 5;
pub const TENMAP_VALUE_F32: u32 = 6;
pub const TENMAP_VALUE_BOOL: u32 = 7;
/// the only type that SafeTensors has
pub const TENMAP_VALUE_STRING: u32 = 8;
pub const TENMAP_VALUE_ARRAY: u32 = 9;
pub const TENMAP_VALUE_U64: u32 = 10;
pub const TENMAP_VALUE_I64: u32 = 11;
pub const TENMAP_VALUE_F64: u32 = 12;

/// tenmap_error.remedy: what would help, for programs. The message says the same in words. Values
/// never change; new ones are appended.
pub const TENMAP_REMEDY_NONE: u32 = 0;
/// TENMAP_OPEN_PARTIAL, to go without the missing files
pub const TENMAP_REMEDY_ALLOW_PARTIAL: u32 = 1;
/// TENMAP_OPEN_LENIENT, to take the file as it is
pub const TENMAP_REMEDY_ALLOW_LENIENT: u32 = 2;
/// TENMAP_OPEN_DEQUANTIZE: the weight is quantized
pub const TENMAP_REMEDY_DEQUANTIZE: u32 = 3;
/// options.backend = TENMAP_BACKEND_READ
pub const TENMAP_REMEDY_BACKEND_READ: u32 = 4;
/// a higher options.max_header_bytes
pub const TENMAP_REMEDY_RAISE_HEADER_LIMIT: u32 = 5;
/// the file is not what it should be, or not complete
pub const TENMAP_REMEDY_FETCH_AGAIN: u32 = 6;
/// tenmap_repair_metadata
pub const TENMAP_REMEDY_REPAIR: u32 = 7;
/// to open without TENMAP_OPEN_DEQUANTIZE
pub const TENMAP_REMEDY_AS_STORED: u32 = 8;
/// TENMAP_OPEN_LATER_WINS
pub const TENMAP_REMEDY_LATER_WINS: u32 = 9;
/// the file has changed: close the model, open it again
pub const TENMAP_REMEDY_OPEN_AGAIN: u32 = 10;
/// the same call, later: a program or server is busy
pub const TENMAP_REMEDY_TRY_AGAIN: u32 = 11;
/// another program converts or unpacks the file
pub const TENMAP_REMEDY_CONVERT: u32 = 12;
/// a limit of the process: files, memory, locked pages
pub const TENMAP_REMEDY_RAISE_PROCESS_LIMIT: u32 = 13;
/// tenmap_read or tenmap_read_as, not a view or bytes
pub const TENMAP_REMEDY_READ: u32 = 14;
/// tenmap_part_at gives tensors that have bytes
pub const TENMAP_REMEDY_PARTS: u32 = 15;
/// the path of one of the files or folders that it holds
pub const TENMAP_REMEDY_OPEN_ONE: u32 = 16;
/// the server does not serve parts of files: fetch it whole
pub const TENMAP_REMEDY_DOWNLOAD: u32 = 17;
/// a token or keys that the server accepts
pub const TENMAP_REMEDY_CREDENTIALS: u32 = 18;

/// Filled on failure, left unchanged on success. Owned by the caller. NULL is accepted wherever a
/// pointer to one is taken. This struct is frozen at 512 bytes.
#[repr(C)]
pub struct tenmap_error {
    pub status: tenmap_status,
    /// errno, where the system refused; else 0
    pub os_error: i32,
    /// which shard, where one applies; else 0
    pub shard: u32,
    /// TENMAP_REMEDY_\*: what would help; NONE with TENMAP_ERR_ARGUMENT
    pub remedy: u32,
    /// byte offset in that file, where one applies; else 0
    pub offset: u64,
    /// which request, edit or tensor (in file order), where one applies; else 0
    pub index: u64,
    /// NUL-terminated UTF-8, one or two sentences, no control characters. A message about a file
    /// begins with its path in double quotes, in which a backslash escapes a quote, then ": ". It is
    /// written for the person who has the model and says what would help in words.
    /// Only TENMAP_ERR_ARGUMENT, which is for the programmer, names macros.
    pub message: [c_char; 480],
}

/// of an unknown dtype, TENMAP_AS_STORED and TENMAP_OPAQUE
pub const TENMAP_KIND_NONE: u32 = 0;
pub const TENMAP_KIND_BOOL: u32 = 1;
pub const TENMAP_KIND_UINT: u32 = 2;
pub const TENMAP_KIND_INT: u32 = 3;
pub const TENMAP_KIND_FLOAT: u32 = 4;
pub const TENMAP_KIND_COMPLEX: u32 = 5;

/// Overflow and infinity become the largest finite value of a floating-point destination, and an
/// integer becomes the nearest value that an integer destination has; NaN stays NaN. Without
/// this flag, overflow and infinity become infinity, NaN where the dtype has no infinity, and
/// the largest value where it has neither (F4, F6). A copy to the same dtype changes nothing.
pub const TENMAP_CONVERT_SATURATE: u32 = 1;
/// By default, results that are too large to stay in the cache are written with non-temporal
/// stores. STREAM always uses them, NO_STREAM never; both together are TENMAP_ERR_ARGUMENT.
/// These only affect speed: results are the same.
pub const TENMAP_CONVERT_STREAM: u32 = 2;
pub const TENMAP_CONVERT_NO_STREAM: u32 = 4;

/// What a conversion did to elements beyond rounding them. C64 counts its two parts separately. For
/// F8_E8M0, which has neither zero nor sign, zeros and negative numbers count as overflowed; nothing
/// is flushed there.
#[repr(C)]
pub struct tenmap_losses {
    /// Became infinity, NaN or the largest value though they were none of these: finite values
    /// beyond the largest, decided after rounding, and infinities that did not stay infinite.
    pub overflowed: u64,
    /// became zero though they were not
    pub flushed: u64,
    /// were NaN already
    pub nans: u64,
    pub reserved: [u64; 5],
}

/// Bytes that are not files of this system: an archive, a network, an engine's own VFS. All four
/// functions may be called from any thread, several at a time. A path is the one given to
/// tenmap_open, or that path with a shard's name in place of what is between the last '/' and the
/// first '?'; the '?' and what follows it are kept. After http:// or https:// a '%', '?' or '#' in
/// the name is percent-encoded; after hf:// or s3:// a '?' is an ordinary character.
///
/// `error` is never NULL and starts empty. A function that fails writes its own message there, which
/// reaches the caller unchanged, and returns a TENMAP_ERR_\*.
#[repr(C)]
pub struct tenmap_io {
    /// sizeof(tenmap_io): lets the struct grow
    pub struct_size: usize,
    /// TENMAP_ERR_NOT_FOUND if `path` names nothing. \*size in bytes; \*file is for read and close.
    pub open: Option<unsafe extern "C" fn(ctx: *mut c_void, path: *const c_char, file: *mut *mut c_void, size: *mut u64, error: *mut tenmap_error) -> tenmap_status>,
    /// Reads exactly these bytes, inside the size that open gave, or fails: with TENMAP_ERR_IO if
    /// the object has changed since it was opened, because the library has no other way to know.
    pub read: Option<unsafe extern "C" fn(ctx: *mut c_void, file: *mut c_void, offset: u64, dst: *mut c_void, bytes: usize, error: *mut tenmap_error) -> tenmap_status>,
    /// Called once for each successful open, when no read of that file is running.
    pub close: Option<unsafe extern "C" fn(ctx: *mut c_void, file: *mut c_void)>,
    /// Calls `entry` with each name (at most 1,024 bytes) in the folder `path`, and ends early with
    /// TENMAP_OK if that returns nonzero. TENMAP_ERR_NOT_FOUND if `path` is not a folder. Called
    /// when open did not find the path. May be NULL: then no folder can be opened.
    pub list: Option<unsafe extern "C" fn(ctx: *mut c_void, path: *const c_char, entry: Option<unsafe extern "C" fn(entry_ctx: *mut c_void, name: *const c_char) -> c_int>, entry_ctx: *mut c_void, error: *mut tenmap_error) -> tenmap_status>,
    /// passed to all of them
    pub ctx: *mut c_void,
    /// a good size for one read; 0: the library chooses
    pub preferred_bytes: u64,
    /// 0
    pub reserved: [u64; 4],
}

pub const TENMAP_IO_INIT: tenmap_io = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_io = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_io>();
    options
};

/// The data is aligned for its elements: to 1 byte if they are narrower than 16 bits, to 4 bytes
/// for C64, and for block dtypes as a C struct of the block would be. What counts is the address
/// or, with TENMAP_BACKEND_READ, the file offset.
pub const TENMAP_TENSOR_ALIGNED: u32 = 1;
/// A quantized weight (TENMAP_OPEN_DEQUANTIZE), or a tensor whose elements do not lie one after
/// the other (scheme "strided"). `data` is NULL. Reads, slices, loads, tenmap_measure and the
/// writer's copies compute its values, or copy its elements bit for bit; tenmap_view and
/// tenmap_read_bytes return TENMAP_ERR_UNSUPPORTED. nbytes is the size of a read as its own
/// dtype; shard and file_offset are those of the codes, or of the first element. Residency and
/// progress count all parts. The only part of a strided tensor is the range of the file from its
/// first element to its last, which other tensors may share.
pub const TENMAP_TENSOR_COMPUTED: u32 = 2;

/// One tensor. Owned by the model, reached by pointer, valid until tenmap_close.
#[repr(C)]
pub struct tenmap_tensor {
    /// UTF-8, NUL-terminated. A hostile name may hold NUL inside:
    pub name: *const c_char,
    /// this length is authoritative.
    pub name_len: usize,
    pub dtype: tenmap_dtype,
    /// 0 for a scalar
    pub rank: u32,
    pub shape: *const u64,
    /// into the mapping; NULL with BACKEND_READ, options.io and TENSOR_COMPUTED
    pub data: *const c_void,
    pub nbytes: u64,
    pub nelems: u64,
    /// absolute, in its shard's file
    pub file_offset: u64,
    /// for tenmap_shard_at
    pub shard: u32,
    /// TENMAP_TENSOR_\*
    pub flags: u32,
    pub model: *const tenmap_model,
    /// in its file's header, from 0; \_\_metadata\_\_ does not count
    pub header_position: u64,
}

/// One file of a model, for pinning, GPU registration and the caller's own I/O. The descriptor and
/// the mapping belong to the model: read with pread, do not move the file offset, and do not close
/// it. A tensor's bytes are at base + (file_offset - offset) in memory and at file_offset in fd. On
/// Windows fd belongs to the C library that tenmap was built with; _get_osfhandle gives the handle.
#[repr(C)]
pub struct tenmap_shard {
    /// as opened; "" for a descriptor or memory
    pub path: *const c_char,
    /// -1 for memory, with options.io, and after tenmap_detach
    pub fd: c_int,
    /// 0
    pub flags: u32,
    /// this shard's first byte in memory; NULL with BACKEND_READ and options.io
    pub base: *const c_void,
    /// in bytes: the file's, unless options.offset or length select a range
    pub size: u64,
    /// The JSON text without its 8-byte length field; all of a GGUF or .npy header; a PyTorch file's
    /// ```c
    ///        pickle with the table of its storages; a .npz file's headers with the table of its arrays
    /// ```
    pub header_bytes: u64,
    /// where the first tensor's bytes may start, absolute in the file
    pub data_offset: u64,
    /// this shard's tensors are \[first_tensor, first_tensor+tensor_count)
    pub first_tensor: usize,
    /// of tenmap_at
    pub tensor_count: usize,
    /// options.offset: where the model starts in the file
    pub offset: u64,
    /// "safetensors", "gguf", "pytorch", "npy" or "npz"
    pub format: *const c_char,
    /// Of a PyTorch file whose tensors lie under one key of its root: that key, "state_dict", and
    /// ```c
    ///        how many tensors other branches hold, which TENMAP_OPEN_BRANCHES would list. Else NULL, 0.
    /// ```
    pub branch: *const c_char,
    pub other_tensors: u64,
}

/// One pair of a file's metadata: of \_\_metadata\_\_, or of a GGUF file. Both strings are
/// NUL-terminated and may also contain NUL. Keys and SafeTensors values are UTF-8; GGUF strings are
/// as the file has them.
#[repr(C)]
pub struct tenmap_metadata {
    pub key: *const c_char,
    pub key_len: usize,
    /// a number or a BOOL as text: "32", "1e-05", "true"; "" for an array
    pub value: *const c_char,
    pub value_len: usize,
    pub shard: u32,
    /// TENMAP_VALUE_\*
    pub r#type: u32,
    /// of an array's elements; otherwise equal to type
    pub element_type: u32,
    /// 0
    pub reserved: u32,
    /// an array's elements; otherwise 1
    pub count: u64,
    /// the bytes as the file has them: little-endian, of any alignment;
    pub raw: *const c_void,
    /// a string without its length, an array without its type and count
    pub raw_bytes: u64,
}

/// A value by itself, for walking through arrays. The caller owns it; it points into the model.
#[repr(C)]
pub struct tenmap_value {
    /// these five are as in tenmap_metadata
    pub r#type: u32,
    /// these five are as in tenmap_metadata
    pub element_type: u32,
    pub count: u64,
    pub raw: *const c_void,
    pub raw_bytes: u64,
}

/// Tensors are views into a shared, read-only mapping (private with TENMAP_OPEN_PRIVATE).
pub const TENMAP_BACKEND_MAP: u32 = 0;
/// No mapping: `data` is NULL, and every access is a checked pread, which is TENMAP_ERR_IO if
/// the file's size or modification time has changed since it was opened.
pub const TENMAP_BACKEND_READ: u32 = 1;

/// Also open files that a strict reader refuses: everything that TENMAP_OPEN_TRAILING and the
/// flags after it allow, including flags that later versions add. Tensors that overlap or lie
/// out of bounds are never allowed.
pub const TENMAP_OPEN_LENIENT: u32 = 1;
/// Some or all shards may be missing (tenmap_missing_at): their tensors are absent. A shard that
/// is present must be complete.
pub const TENMAP_OPEN_PARTIAL: u32 = 2;
/// tenmap_open_list: of several tensors with the same name, the last path's is used.
pub const TENMAP_OPEN_LATER_WINS: u32 = 8;
/// Show each quantized weight (codes, scales, zero points) as one tensor, with its name and
/// shape from before it was quantized and the flag TENMAP_TENSOR_COMPUTED. Its parts are not
/// listed (tenmap_part_at gives them). Its dtype is the one that the model computes in:
/// config.json's, else the scales', else BF16. Opening also reads config.json beside the model,
/// if there is one, and a few small tensors that describe shapes. A part that is missing or does
/// not fit is TENMAP_ERR_FORMAT, even with TENMAP_OPEN_LENIENT. With TENMAP_OPEN_PARTIAL a
/// weight that lacks a part is absent, and its other parts are listed as they are, except for
/// codes that have the weight's own name. docs/quantized.md has the schemes, their formulas, and
/// how they are recognized.
pub const TENMAP_OPEN_DEQUANTIZE: u32 = 4;
/// tenmap_find also accepts names that a writer left out because another tensor has their data:
/// pairs "omitted name": "kept name" in \_\_metadata\_\_ or in the index's metadata whose value
/// names a tensor and whose key does not (safetensors.torch.save_model and huggingface_hub write
/// them). Only tenmap_find knows them: tenmap_count and tenmap_at have each tensor once.
pub const TENMAP_OPEN_ALIASES: u32 = 16;
/// Open only the index. No shard is looked for, and there are no tensors: tenmap_listed_at has
/// their names, tenmap_shard_listed their files, which are relative to tenmap_folder. A model
/// without an index is opened as if the flag were not set; tenmap_index_json tells which was
/// done.
pub const TENMAP_OPEN_INDEX_ONLY: u32 = 32;
/// The mapping is private and writable (copy-on-write), for engines that apply a LoRA at load or
/// repack weights in place: cast `data` and write to it. Each page that is written takes memory
/// of this process. The file never changes. tenmap_view, tenmap_read, tenmap_load, tenmap_take
/// and tenmap_measure see what was written. TENMAP_LOAD_READ, TENMAP_LOAD_DIRECT, copies, saves
/// and fingerprints see the file. TENMAP_ADVISE_RELEASE does nothing, because it would undo
/// writes. tenmap_detach returns TENMAP_ERR_UNSUPPORTED. If another program changes the file,
/// pages that were not written may change too. A child of fork has its own copy.
///
/// Thread rule: while one thread writes an element, no other may use it. The caller must ensure
/// that. TENMAP_ERR_ARGUMENT with TENMAP_BACKEND_READ, options.io and tenmap_open_memory.
pub const TENMAP_OPEN_PRIVATE: u32 = 64;
/// List all tensors of a PyTorch file by their full names ("optimizer.state.0.exp_avg"). Without
/// it, if no tensor lies directly in the root, the model is the first of these keys that holds
/// tensors: state_dict, model_state_dict, model, module, net, params_ema, params, ema; and names
/// begin below it.
pub const TENMAP_OPEN_BRANCHES: u32 = 128;
/// What TENMAP_OPEN_LENIENT allows, one by one.
/// bytes after the last tensor
pub const TENMAP_OPEN_TRAILING: u32 = 256;
/// bytes between tensors that belong to none
pub const TENMAP_OPEN_HOLES: u32 = 512;
/// as TENMAP_OPAQUE
pub const TENMAP_OPEN_UNKNOWN_DTYPES: u32 = 1024;
/// The index lists tensors in shards that lack them: others have them, or they are absent.
pub const TENMAP_OPEN_STALE_INDEX: u32 = 2048;
/// shards in folders below the index's own; never outside it
pub const TENMAP_OPEN_SUBFOLDERS: u32 = 4096;

/// Zero is the default for every field. Start from TENMAP_OPTIONS_INIT; NULL means all defaults.
#[repr(C)]
pub struct tenmap_options {
    /// sizeof(tenmap_options): lets the struct grow
    pub struct_size: usize,
    /// TENMAP_BACKEND_\*
    pub backend: u32,
    /// TENMAP_OPEN_\*
    pub flags: u32,
    /// For opening many shards, at most 64. 0: the library decides, up to 8, and without `io` no
    /// more than there are CPUs.
    pub threads: u32,
    /// 0
    pub reserved: u32,
    /// 0: 100,000,000, the reference's limit; for the index too
    pub max_header_bytes: u64,
    /// a model inside a larger file; length 0: to the end of the file.
    /// ```c
    ///                                   For single files, descriptors and memory only.
    /// ```
    pub offset: u64,
    /// a model inside a larger file; length 0: to the end of the file.
    /// ```c
    ///                                   For single files, descriptors and memory only.
    /// ```
    pub length: u64,
    /// Where the model's files are; NULL: on this system. Copied at open; its ctx must live until
    /// the model is closed. The model behaves as with TENMAP_BACKEND_READ, and its shards have no
    /// descriptors. TENMAP_ERR_ARGUMENT with tenmap_open_fd and tenmap_open_memory.
    pub io: *const tenmap_io,
}

pub const TENMAP_OPTIONS_INIT: tenmap_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_options>();
    options
};

/// The pages are mapped and in memory when the call returns. If the file has been truncated
/// since it was opened, or its storage fails, the result is TENMAP_ERR_IO with os_error EFAULT,
/// never a signal. The pages are not locked: if they do not all fit, the first ones have been
/// dropped again when the call returns. If the same bytes are queued for prefetching, the
/// prefetching thread reads them next, and this call waits for it.
pub const TENMAP_ADVISE_POPULATE: u32 = 1;
/// The same in the background, in the order of the calls, 16 MiB at a time, on one thread per
/// model that starts with the first such advice and ends with tenmap_close. Failures are not
/// reported here: the code that later uses the bytes meets them. POPULATE each piece before you
/// use it: that waits for this thread, whereas touching pages that are not in memory yet reads
/// them a second time.
pub const TENMAP_ADVISE_PREFETCH: u32 = 2;
/// Unmaps the pages from this process and cancels prefetching of them that has not begun (up to
/// 16 MiB under way may still come in). The page cache may keep them, as memory that the system
/// can take back at any time. Views stay valid and load again when touched. If the system maps
/// the file in huge pages (2 MiB), the huge pages at both ends are unmapped whole: neighboring
/// tensors in them stay in the page cache and cost one fault when they are touched next.
pub const TENMAP_ADVISE_RELEASE: u32 = 3;
/// Brings the pages in and keeps them in memory. TENMAP_ERR_LIMIT beyond what this process may
/// lock. Locks do not nest. Locked pages must be unlocked before they can be released. If
/// locking fails, only the pages that were locked before stay locked.
pub const TENMAP_ADVISE_LOCK: u32 = 4;
pub const TENMAP_ADVISE_UNLOCK: u32 = 5;

/// One request. Zero the fields that you do not use.
#[repr(C)]
pub struct tenmap_request {
    pub tensor: *const tenmap_tensor,
    /// as in tenmap_read_slice; NULL, NULL: the whole tensor
    pub begin: *const u64,
    /// as in tenmap_read_slice; NULL, NULL: the whole tensor
    pub end: *const u64,
    /// TENMAP_AS_STORED: the tensor's own
    pub r#as: tenmap_dtype,
    /// TENMAP_CONVERT_\*
    pub flags: u32,
    /// no byte written by two requests, none inside a model's data
    pub dst: *mut c_void,
    pub dst_bytes: usize,
    /// As in tenmap_read_as; TENMAP_AS_STORED: the tensor's own. begin, end and rows count elements
    /// of this dtype in the last dimension: \[8, 16\] of U8 is \[8, 32\] of F4 and \[8, 4\] of F32. That
    /// dimension must be a whole number of elements (otherwise TENMAP_ERR_UNSUPPORTED).
    pub stored_as: tenmap_dtype,
    /// 0
    pub reserved: u32,
    /// Bytes from the start of one row in dst to the next; 0: rows are contiguous. A row is the
    /// innermost dimension of the block or tensor, and `rows`, below, is the product of the others.
    /// Bytes between rows are not touched, so requests may interleave their rows. The stride must be
    /// at least the bytes of a row; rows of 4- and 6-bit elements must be whole bytes. dst_bytes
    /// must be at least (rows - 1) \* dst_stride plus the bytes of one row.
    pub dst_stride: u64,
}

/// Checked reads, as with TENMAP_BACKEND_READ, even on a mapped model: a file that shrinks or
/// changes is TENMAP_ERR_IO instead of SIGBUS.
pub const TENMAP_LOAD_READ: u32 = 1;
/// Checked reads that bypass the page cache and leave its contents alone: for models that are
/// read once. Same as TENMAP_LOAD_READ if the file system cannot do that. The load holds one
/// more descriptor per shard while it runs. A copy without conversion needs no buffer if the
/// address in dst and the offset in the file are equal modulo 4096 (modulo 512 on most disks).
pub const TENMAP_LOAD_DIRECT: u32 = 2;

/// Memory that tenmap_take allocated; see there.
#[repr(C)]
pub struct tenmap_arena {
    _opaque: [u8; 0],
    _not_send: core::marker::PhantomData<*mut c_void>,
}

/// Start from TENMAP_LOAD_OPTIONS_INIT; NULL means all defaults.
#[repr(C)]
pub struct tenmap_load_options {
    /// sizeof(tenmap_load_options): lets the struct grow
    pub struct_size: usize,
    /// 0: the library decides; at most 64, the caller's included
    pub threads: u32,
    /// TENMAP_LOAD_\*
    pub flags: u32,
    /// Called on the caller's thread every few MiB with the number of file bytes done and the total
    /// of all requests: first with done 0, last with done equal to total. A nonzero return cancels;
    /// the final call's return is ignored.
    pub progress: Option<unsafe extern "C" fn(ctx: *mut c_void, done: u64, total: u64) -> c_int>,
    /// Called once for each request, never under a lock of the library. With TENMAP_OK: on the
    /// thread that finished the request, as soon as all of its dst is written, possibly on several
    /// threads at a time. With another status: on the caller's thread, after all other threads have
    /// stopped; TENMAP_ERR_CANCELLED for requests that were not done. Not called if an argument is
    /// wrong.
    pub done: Option<unsafe extern "C" fn(ctx: *mut c_void, request: usize, status: tenmap_status)>,
    /// for both
    pub ctx: *mut c_void,
    /// For tenmap_take only; elsewhere TENMAP_ERR_ARGUMENT. The arena of an earlier take, of any
    /// model. This take adds its copies to that arena, and sets \*arena to it. No other thread may
    /// use or free it during the call. If the call fails, the arena stays as it was.
    pub append: *mut tenmap_arena,
    /// For tenmap_take only; elsewhere ignored. Set both functions or neither. alloc supplies the
    /// memory for the copies instead of tenmap_alloc, such as pinned memory or memory of one NUMA
    /// node. It is called at most once, on the caller's thread, with at least 1 byte and with an
    /// alignment that is a power of two from 64 bytes to 2 MiB. The memory need not be zeroed. If
    /// alloc returns NULL, the call returns TENMAP_ERR_MEMORY; if the memory lacks that alignment,
    /// TENMAP_ERR_ARGUMENT. The arena keeps dealloc and alloc_ctx until it is freed. The thread that
    /// frees it calls dealloc, with the bytes that alloc was asked for; if the take fails, that is
    /// the caller's thread.
    pub alloc: Option<unsafe extern "C" fn(alloc_ctx: *mut c_void, bytes: usize, alignment: usize) -> *mut c_void>,
    pub dealloc: Option<unsafe extern "C" fn(alloc_ctx: *mut c_void, memory: *mut c_void, bytes: usize)>,
    pub alloc_ctx: *mut c_void,
}

pub const TENMAP_LOAD_OPTIONS_INIT: tenmap_load_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_load_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_load_options>();
    options
};

/// if no tensor has the name, data and tensor are NULL
pub const TENMAP_WANT_OPTIONAL: u32 = 1;
/// copied into the arena even if a view would do: to outlive the model
pub const TENMAP_WANT_COPY: u32 = 2;

/// Numbers that replace %u in a name; OR them into the flags. With both, the first %u is the layer
/// and the second the expert; with only one of them, the name has one %u. Numbers go up to 4093;
/// larger ones are TENMAP_ERR_ARGUMENT. The fields `numbers`, `layer` and `expert` do the same
/// without that limit. Without a number, a name is taken literally.
///
/// ```c
///     {.name = "model.layers.%u.mlp.up_proj.weight", .flags = TENMAP_WANT_LAYER(7)}
/// ```
pub const fn TENMAP_WANT_LAYER(n: u64) -> u32 {
    (if n < 4094 { n as u32 + 1 } else { 4095 }) << 8
}

pub const fn TENMAP_WANT_EXPERT(n: u64) -> u32 {
    (if n < 4094 { n as u32 + 1 } else { 4095 }) << 20
}

/// In tenmap_want.shape: this dimension may have any extent.
pub const TENMAP_ANY_EXTENT: u64 = u64::MAX;

/// One weight. Zero the fields that you do not use.
#[repr(C)]
pub struct tenmap_want {
    /// NUL-terminated; used during the call only
    pub name: *const c_char,
    /// TENMAP_AS_STORED: whatever it is stored as
    pub r#as: tenmap_dtype,
    /// of shape; with shape NULL: the rank that it must have, 0: any
    pub rank: u32,
    /// that it must have; NULL: any. Used during the call only
    pub shape: *const u64,
    /// TENMAP_WANT_\*
    pub flags: u32,
    /// of data, a power of two up to 2 MiB; 0: the element's
    pub alignment: u32,
    /// Out: the weight in the host's byte order, row-major, packed. A view into the mapping if
    /// dtype, alignment, byte order and backend allow it; else in the arena, aligned to 64 bytes, or
    /// to `alignment` if that is more.
    pub data: *const c_void,
    /// out: where it came from; valid until close
    pub tensor: *const tenmap_tensor,
    /// 0
    pub reserved: [u64; 2],
    /// out: the bytes of data; 0 if an optional weight is missing
    pub nbytes: u64,
    /// A slice of the weight, as in tenmap_read_slice: the share of one rank, one expert of a stack.
    /// NULL, NULL: the whole weight. Both point to `rank` numbers, so set `rank` or a shape; the
    /// shape is that of the whole weight. The library reads them during the call only. A slice whose
    /// elements are contiguous may be a view. TENMAP_ERR_RANGE if the slice is not inside the
    /// weight, or if it cuts through a block of a block dtype that is taken as stored.
    pub begin: *const u64,
    /// A slice of the weight, as in tenmap_read_slice: the share of one rank, one expert of a stack.
    /// NULL, NULL: the whole weight. Both point to `rank` numbers, so set `rank` or a shape; the
    /// shape is that of the whole weight. The library reads them during the call only. A slice whose
    /// elements are contiguous may be a view. TENMAP_ERR_RANGE if the slice is not inside the
    /// weight, or if it cuts through a block of a block dtype that is taken as stored.
    pub end: *const u64,
    /// How many %u the name has. With 1, `layer` replaces it. With 2, `layer` replaces the first and
    /// `expert` the second. Fields that are not used are 0. TENMAP_ERR_ARGUMENT if the flags have
    /// numbers too.
    pub numbers: u32,
    /// How many %u the name has. With 1, `layer` replaces it. With 2, `layer` replaces the first and
    /// `expert` the second. Fields that are not used are 0. TENMAP_ERR_ARGUMENT if the flags have
    /// numbers too.
    pub layer: u32,
    /// How many %u the name has. With 1, `layer` replaces it. With 2, `layer` replaces the first and
    /// `expert` the second. Fields that are not used are 0. TENMAP_ERR_ARGUMENT if the flags have
    /// numbers too.
    pub expert: u32,
    /// 0
    pub reserved2: u32,
    /// The caller's memory for this weight. The weight is copied there and `data` is set to dst; it
    /// is never a view. NULL: the library decides. No two wants may write the same byte, and none
    /// may write inside a model's data. TENMAP_ERR_BUFFER if dst_bytes is too small. dst may have
    /// any alignment if `alignment` is 0, and must have that alignment otherwise. After a failure
    /// the contents of dst are undefined.
    pub dst: *mut c_void,
    pub dst_bytes: usize,
}

/// How a tensor is stored. Owned by the library, valid until tenmap_close.
#[repr(C)]
pub struct tenmap_scheme {
    /// "none", "fp8-block", "mxfp4", "q4_k", ...: docs/quantized.md has all
    pub name: *const c_char,
    /// of a stored value; 0 for "none"
    pub bits: u32,
    /// a scale is shared by this many rows and columns of the last two axes;
    pub group_rows: u32,
    /// 0: all of that axis
    pub group_columns: u32,
    /// 0 for a tensor that is not computed
    pub part_count: u32,
}

/// the codes; for a strided tensor, the range of the file
pub const TENMAP_PART_VALUES: u32 = 1;
pub const TENMAP_PART_SCALES: u32 = 2;
/// subtracted from codes: tenmap_packing.zeros is 1, 2 or 3
pub const TENMAP_PART_ZEROS: u32 = 3;
/// the group of scales of each column of the weight (I32)
pub const TENMAP_PART_GROUP_INDEX: u32 = 4;
/// one for all scales, or one for each matrix
pub const TENMAP_PART_GLOBAL_SCALE: u32 = 5;
/// the value of each code
pub const TENMAP_PART_TABLE: u32 = 6;
/// describes the weight; products do not need it
pub const TENMAP_PART_OTHER: u32 = 7;
/// added to scaled codes: tenmap_packing.zeros is 4
pub const TENMAP_PART_BIASES: u32 = 8;
/// the scales of SCALES, which are then codes themselves
pub const TENMAP_PART_NESTED_SCALES: u32 = 9;
/// the value of each code of SCALES
pub const TENMAP_PART_NESTED_TABLE: u32 = 10;
/// a term of a derived tensor (derive.h)
pub const TENMAP_PART_TERM: u32 = 11;

/// How the codes of a quantized weight are packed in VALUES, and which scale belongs to which code.
/// With this, an engine can compute with the parts as they are mapped. Owned by the library, valid
/// until tenmap_close; it grows at the end.
///
/// Where a code is stored: the last two axes of the weight are its matrices. For each of them,
/// VALUES has one matrix of `rows` x `columns` codes; these are matrix_bytes apart. Element (i, j)
/// of a matrix of the weight has the number e = i \* n + j, where n is the weight's last extent. Its
/// code is in row e / columns and column e % columns. So a weight whose codes lie in one long row
/// has one row. If `transposed`, the code of element (i, j) is in row j and column i instead.
///
/// Which bits a code has: codes are packed into words of word_bits bits, little-endian. The words of
/// a row follow each other from byte row \* row_bytes on, and code k is the one in column k. With
/// `down`, the words of a column begin at byte column \* word_bits / 8 and are row_bytes apart, and
/// code k is the one in row k. Code k is field order\[k % per_word\] of word k / per_word; fields are
/// counted from the lowest bits. If per_word is 0, codes may cross words: code k begins at bit
/// k \* bits of the stream that the words form.
///
/// What a code means: a number of dtype `code`. If `code` is TENMAP_AS_STORED, the number is
/// TABLE\[field\] if there is a TABLE, else field - bias. Its scale is in row (row / group_rows) and
/// column (column / group_columns) of a matrix of scale_rows x scale_columns; all matrices share one
/// such matrix if scales_shared. With a GROUP_INDEX g, the scale is in column g\[column\] instead, or,
/// if transposed, in row g\[row\]. The value is (number - zero) \* scale. With BIASES, it is
/// number \* scale, plus the entry of BIASES for that scale.
#[repr(C)]
pub struct tenmap_packing {
    /// of a code
    pub bits: u32,
    /// 8 or 32
    pub word_bits: u32,
    /// codes in a word; 0: codes may cross words
    pub per_word: u32,
    /// order\[i\]: the field of code i in its word, from the lowest bits
    pub order: [u8; 32],
    /// 1: codes are packed down the stored columns, not along the rows
    pub down: u32,
    /// 1: stored rows are the columns of the weight
    pub transposed: u32,
    /// code: AS_STORED for unsigned integers; scale: to read SCALES as
    pub code: tenmap_dtype,
    /// code: AS_STORED for unsigned integers; scale: to read SCALES as
    pub scale: tenmap_dtype,
    /// subtracted from every unsigned code and every packed zero
    pub bias: i32,
    /// How the scale to use follows from the stored one. 0: it is the same. 1: times GLOBAL_SCALE.
    /// 2: divided by GLOBAL_SCALE. 3: times 1/127. 4: scale i is NESTED_TABLE\[stored\] \*
    /// NESTED_SCALES\[i / nested_block\] + nested_offset. Each operation is rounded to F32.
    pub scale_op: u32,
    /// How zeros are stored. 0: there are none. 1: as elements of a dtype of their own, one for each
    /// scale. 2: as fields of `bits` bits along the rows of scales, in the order of the codes, each
    /// row in whole 32-bit words. 3: as a stream of such fields down each column of scales, from the
    /// lowest bits up; ZEROS then has rows of one 32-bit word for each column. 4: there are BIASES
    /// instead, one for each scale.
    pub zeros: u32,
    /// 1: packed zeros are stored minus one, modulo 2^bits
    pub zero_plus_one: u32,
    pub rows: u64,
    pub columns: u64,
    pub row_bytes: u64,
    pub matrix_bytes: u64,
    pub group_rows: u64,
    pub group_columns: u64,
    pub scale_rows: u64,
    pub scale_columns: u64,
    pub scales_shared: u32,
    pub nested_offset: f32,
    pub nested_block: u64,
}

/// The stored tensors of one quantized weight, recognized by their names and dtypes alone.
#[repr(C)]
pub struct tenmap_quantized {
    /// who writes it so: "GPTQ or AWQ", "MLX", ... Static
    pub family: *const c_char,
    /// 1: TENMAP_OPEN_DEQUANTIZE has the rules of this family; else 0
    pub dequantizes: u32,
    /// at least 2
    pub part_count: u32,
    /// of the weight; 0 where the parts do not say
    pub values: u64,
    /// the codes first
    pub parts: [*const tenmap_tensor; 12],
    /// 0
    pub reserved: [u64; 4],
}

/// For tenmap_fingerprint: hash the bytes of the tensors, not only the headers.
pub const TENMAP_FINGERPRINT_VALUES: u32 = 1;

/// The size of a tensor's fingerprint.
pub const TENMAP_FINGERPRINT_BYTES: u32 = 16;

/// Start from TENMAP_FINGERPRINT_OPTIONS_INIT; NULL means all defaults.
#[repr(C)]
pub struct tenmap_fingerprint_options {
    /// sizeof(tenmap_fingerprint_options): lets the struct grow
    pub struct_size: usize,
    /// 0: the library decides; at most 64, the caller's included
    pub threads: u32,
    /// 0
    pub flags: u32,
    /// As in tenmap_load_options: on the caller's thread; a nonzero return cancels.
    pub progress: Option<unsafe extern "C" fn(ctx: *mut c_void, done: u64, total: u64) -> c_int>,
    pub ctx: *mut c_void,
}

pub const TENMAP_FINGERPRINT_OPTIONS_INIT: tenmap_fingerprint_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_fingerprint_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_fingerprint_options>();
    options
};

/// The term is taken transposed, after its shape and its block: as a matrix, so it has two axes.
/// For TENMAP_DERIVE_LOW_RANK it may have more, which count as they do there.
pub const TENMAP_TERM_TRANSPOSED: u32 = 1;

/// One operand. Everything in it is copied, except the tensor, which must outlive the model.
#[repr(C)]
pub struct tenmap_term {
    /// of any open model; NULL only as term 0 of LOW_RANK: zeros
    pub tensor: *const tenmap_tensor,
    /// Of SUM: that of each term. Of LOW_RANK: that of term 0 and of the first of each pair. Finite
    /// and not 0 there (where the tensor is NULL: any finite number); 0 elsewhere.
    pub factor: f64,
    /// taken as this shape, of the same count; NULL: its own
    pub shape: *const u64,
    /// then this block of it, one pair per axis; both NULL: all
    pub begin: *const u64,
    /// then this block of it, one pair per axis; both NULL: all
    pub end: *const u64,
    /// of `shape`; 0 if that is NULL
    pub rank: u32,
    /// TENMAP_TERM_\*
    pub flags: u32,
    /// 0
    pub reserved: [u64; 2],
}

/// term 0, the only one
pub const TENMAP_DERIVE_RENAME: u32 = 1;
/// all terms, one after the other along the axis `axis`
pub const TENMAP_DERIVE_CONCAT: u32 = 2;
/// all terms, of one shape, as the indexes of a new axis `axis`
pub const TENMAP_DERIVE_STACK: u32 = 3;
/// the sum over all terms, of one shape, of factor \* term
pub const TENMAP_DERIVE_SUM: u32 = 4;
/// factor \* term 0, plus for each pair of terms, B then A, factor \* (B @ A). A term that has
/// more than two axes counts as a matrix of its first axis by all others; the result has the
/// shape of term 0. Without a term 0 its shape is B's rows by A's columns.
pub const TENMAP_DERIVE_LOW_RANK: u32 = 5;
/// what the caller's function makes of all terms, of one shape
pub const TENMAP_DERIVE_CALL: u32 = 6;

/// One tensor of a derived model. Everything in it is copied; `ctx` must live until the close.
#[repr(C)]
pub struct tenmap_derived {
    /// UTF-8; no other tensor of the model has it
    pub name: *const c_char,
    /// TENMAP_AS_STORED: the library chooses, as described below
    pub dtype: tenmap_dtype,
    /// TENMAP_DERIVE_\*
    pub op: u32,
    /// of CONCAT and STACK; 0 elsewhere
    pub axis: u32,
    /// Terms: 1 of RENAME, up to 64 of SUM and CALL, 3 to 129 of LOW_RANK, up to 65,536 of CONCAT
    /// and STACK.
    pub n: u32,
    /// of `shape`; 0 if that is NULL
    pub rank: u32,
    pub terms: *const tenmap_term,
    /// A permutation of the axes of op's result: axis i of the tensor is the result's axis order\[i\].
    /// NULL: they stay as they are.
    pub order: *const u32,
    /// after `order`, taken as this shape, of the same count; NULL: as is
    pub shape: *const u64,
    /// Of CALL: sets out\[0\] to out\[count - 1\] from terms\[0\] to terms\[n - 1\], each of which has
    /// `count` values, of adjacent columns of one row. The last two axes of op's result, before
    /// `order`, are a matrix; a vector is one row, a scalar 1 x 1. It must be a pure function of the
    /// position and of the values: the library may call it for any cut, in any order, again for the
    /// same values, and on several threads at once. `out` overlaps no term. It may not call back
    /// into the model's calls that take this tensor. Anything but TENMAP_OK ends the read with that
    /// status and \*error, which is never NULL and holds a message that names the tensor until the
    /// function writes another one.
    pub call: Option<unsafe extern "C" fn(ctx: *mut c_void, matrix: u64, row: u64, column: u64, count: usize, terms: *const *const f32, out: *mut f32, error: *mut tenmap_error) -> tenmap_status>,
    /// passed to `call`
    pub ctx: *mut c_void,
    pub reserved: [u64; 4],
}

/// A handle, which is only reached by pointer.
#[repr(C)]
pub struct tenmap_writer {
    _opaque: [u8; 0],
    _not_send: core::marker::PhantomData<*mut c_void>,
}

/// tensors in the order added; some may then be misaligned
pub const TENMAP_WRITER_KEEP_ORDER: u32 = 1;
/// Replace the file that a symbolic link points to; without this flag the link is replaced.
pub const TENMAP_WRITER_FOLLOW_LINKS: u32 = 2;

/// The format of a file that is written. Values never change; new ones are appended.
pub const TENMAP_FORMAT_SAFETENSORS: u32 = 0;
pub const TENMAP_FORMAT_GGUF: u32 = 1;

/// Zero is the default for every field; NULL means all defaults. The same holds for all options
/// below.
#[repr(C)]
pub struct tenmap_writer_options {
    pub struct_size: usize,
    /// SafeTensors: where the data starts; 0 means 8. GGUF: general.alignment, which every tensor
    /// has; 0 means 32. A power of two from 8 to 2 MiB.
    pub data_alignment: u32,
    /// spare header bytes for later metadata edits; see the limit below
    pub header_slack: u32,
    pub flags: u32,
    /// TENMAP_FORMAT_\*
    pub format: u32,
}

pub const TENMAP_WRITER_OPTIONS_INIT: tenmap_writer_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_writer_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_writer_options>();
    options
};

/// Where the bytes of a tensor to be written come from.
#[repr(C)]
pub struct tenmap_source {
    /// of an open model; NULL: data is used, and all fields count
    pub tensor: *const tenmap_tensor,
    /// NULL: the tensor's own
    pub name: *const c_char,
    /// or TENMAP_CSTR
    pub name_len: usize,
    /// with a tensor, NULL means its own
    pub shape: *const u64,
    pub rank: u32,
    /// TENMAP_AS_STORED: the tensor's own; otherwise it is converted
    pub dtype: tenmap_dtype,
    /// all of it, in file order (little-endian)
    pub data: *const c_void,
    /// TENMAP_CONVERT_\*
    pub flags: u32,
    pub reserved: u32,
}

/// Options for copying many tensors. Start from TENMAP_COPY_OPTIONS_INIT.
#[repr(C)]
pub struct tenmap_copy_options {
    pub struct_size: usize,
    /// 0: the library decides; at most 64, the caller's included
    pub threads: u32,
    /// 0
    pub flags: u32,
    /// Called on the caller's thread, in bytes of the sources: first with 0, then every few MiB,
    /// last with total. A nonzero return cancels.
    pub progress: Option<unsafe extern "C" fn(ctx: *mut c_void, done: u64, total: u64) -> c_int>,
    pub ctx: *mut c_void,
    /// One for each source, or NULL: what its conversion lost. Set when the call succeeds, undefined
    /// when it fails. Sources that keep their dtype are copied without being examined: all counts
    /// are 0.
    pub losses: *mut tenmap_losses,
}

pub const TENMAP_COPY_OPTIONS_INIT: tenmap_copy_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_copy_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_copy_options>();
    options
};

/// Edit metadata: in place if the new header fits into the old one and the file has one name, else
/// as a new file that shares the data's blocks, else as a copy. A crash in the middle of an edit in
/// place leaves a file that no reader opens and an undo record beside it; tenmap_open's error names
/// the record.
///
/// GGUF files are edited in the same ways. Free bytes of their header are the elements of a last
/// pair, "tenmap.padding". Edits of that key, of general.alignment and of split.\* are
/// TENMAP_ERR_ARGUMENT: they say how the rest of the file is read. Files whose data begins behind
/// byte 100,000,000 are TENMAP_ERR_LIMIT.
///
/// Keys, values and names stay the caller's, and must not change during the call.
#[repr(C)]
pub struct tenmap_edit {
    pub key: *const c_char,
    /// or TENMAP_CSTR
    pub key_len: usize,
    /// a string; NULL: `typed` counts
    pub value: *const c_char,
    /// or TENMAP_CSTR
    pub value_len: usize,
    /// A value of any type, as in tenmap_writer_value. NULL, with a NULL value, removes the key if
    /// it exists. Giving both is TENMAP_ERR_ARGUMENT.
    pub typed: *const tenmap_value,
}

/// always a new file
pub const TENMAP_EDIT_NO_IN_PLACE: u32 = 1;
/// never by sharing blocks
pub const TENMAP_EDIT_NO_CLONE: u32 = 2;
/// edit the file that a symbolic link points to
pub const TENMAP_EDIT_FOLLOW_LINKS: u32 = 4;
/// TENMAP_ERR_UNSUPPORTED instead of copying the data
pub const TENMAP_EDIT_NO_COPY: u32 = 8;

#[repr(C)]
pub struct tenmap_edit_options {
    pub struct_size: usize,
    pub flags: u32,
    pub reserved: u32,
}

pub const TENMAP_EDIT_OPTIONS_INIT: tenmap_edit_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_edit_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_edit_options>();
    options
};

/// \*how
pub const TENMAP_EDIT_IN_PLACE: u32 = 1;
pub const TENMAP_EDIT_CLONED: u32 = 2;
pub const TENMAP_EDIT_COPIED: u32 = 3;

/// A tensor and its new name.
#[repr(C)]
pub struct tenmap_renaming {
    pub name: *const c_char,
    /// or TENMAP_CSTR
    pub name_len: usize,
    pub new_name: *const c_char,
    /// or TENMAP_CSTR
    pub new_name_len: usize,
}

/// flags: back to the old header; otherwise on to the new one
pub const TENMAP_REPAIR_UNDO: u32 = 1;

/// \*how
pub const TENMAP_REPAIR_NOTHING: u32 = 0;
pub const TENMAP_REPAIR_FINISHED: u32 = 1;
pub const TENMAP_REPAIR_UNDONE: u32 = 2;

/// old shards stay
pub const TENMAP_SAVE_KEEP_OLD: u32 = 1;
/// as TENMAP_WRITER_KEEP_ORDER, in each shard
pub const TENMAP_SAVE_KEEP_ORDER: u32 = 2;

#[repr(C)]
pub struct tenmap_save_options {
    pub struct_size: usize,
    /// of tensor data; 0: 5,000,000,000
    pub max_shard_bytes: u64,
    /// as in tenmap_writer_options
    pub data_alignment: u32,
    /// as in tenmap_writer_options
    pub header_slack: u32,
    pub flags: u32,
    /// TENMAP_FORMAT_\*
    pub format: u32,
    /// pairs for every shard; GGUF: for the first part
    pub metadata: *const tenmap_edit,
    pub metadata_count: usize,
    /// threads, progress over all shards; NULL: defaults
    pub copy: *const tenmap_copy_options,
}

pub const TENMAP_SAVE_OPTIONS_INIT: tenmap_save_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_save_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_save_options>();
    options
};

/// allowed, and worth knowing
pub const TENMAP_FINDING_NOTE: u32 = 1;
/// opens, but something is probably not as intended
pub const TENMAP_FINDING_WARNING: u32 = 2;
/// tenmap_open refuses the model with these options
pub const TENMAP_FINDING_ERROR: u32 = 3;

/// a shard that the system refuses to read
pub const TENMAP_FOUND_UNREADABLE: u32 = 1;
/// one finding for all together, then one for each
pub const TENMAP_FOUND_MISSING_SHARD: u32 = 2;
/// not a SafeTensors file: a Git LFS pointer, a zip, ...
pub const TENMAP_FOUND_FOREIGN: u32 = 3;
/// max_header_bytes, the most shards, the most tensors
pub const TENMAP_FOUND_LIMIT: u32 = 4;
/// the file is shorter than its header says
pub const TENMAP_FOUND_TRUNCATED: u32 = 5;
/// not UTF-8, not JSON; ends the check of that header
pub const TENMAP_FOUND_JSON: u32 = 6;
/// an entry that is not dtype, shape and data_offsets
pub const TENMAP_FOUND_ENTRY: u32 = 7;
/// not an object of strings, or present twice
pub const TENMAP_FOUND_METADATA: u32 = 8;
/// an unknown one
pub const TENMAP_FOUND_DTYPE: u32 = 9;
/// of a tensor, in a header or in the index
pub const TENMAP_FOUND_DUPLICATE_NAME: u32 = 10;
/// in \_\_metadata\_\_
pub const TENMAP_FOUND_DUPLICATE_KEY: u32 = 11;
/// data_offsets that end before they begin
pub const TENMAP_FOUND_OFFSETS: u32 = 12;
pub const TENMAP_FOUND_OVERLAP: u32 = 13;
pub const TENMAP_FOUND_HOLE: u32 = 14;
/// a size that 64 bits do not hold
pub const TENMAP_FOUND_OVERFLOW: u32 = 15;
/// 4- or 6-bit elements that end inside a byte
pub const TENMAP_FOUND_PART_OF_BYTE: u32 = 16;
/// data_offsets and shape do not agree
pub const TENMAP_FOUND_SIZE: u32 = 17;
/// bytes after the last tensor
pub const TENMAP_FOUND_TRAILING: u32 = 18;
/// a tensor that a truncated file lacks in part or whole
pub const TENMAP_FOUND_INCOMPLETE: u32 = 19;
/// not JSON, or no weight_map
pub const TENMAP_FOUND_INDEX: u32 = 20;
/// a shard that would lie outside of the index's folder
pub const TENMAP_FOUND_SHARD_NAME: u32 = 21;
/// Listed in a shard that lacks it (an error); in another shard than listed (a warning).
pub const TENMAP_FOUND_NOT_IN_SHARD: u32 = 22;
/// Oddities: warnings, or notes where they are harmless.
/// in a shard, but not in the index
pub const TENMAP_FOUND_NOT_LISTED: u32 = 23;
/// an error where no index says which one to take
pub const TENMAP_FOUND_IN_TWO_SHARDS: u32 = 24;
/// a numbered file beside the index that it does not name
pub const TENMAP_FOUND_EXTRA_SHARD: u32 = 25;
/// the index's: missing (a note), or wrong
pub const TENMAP_FOUND_TOTAL_SIZE: u32 = 26;
/// a tensor that cannot be used in place
pub const TENMAP_FOUND_MISALIGNED: u32 = 27;
/// the data does not begin at a multiple of 8
pub const TENMAP_FOUND_DATA_START: u32 = 28;
/// around or inside the header's JSON
pub const TENMAP_FOUND_WHITE_SPACE: u32 = 29;
/// a header that is longer than necessary
pub const TENMAP_FOUND_SLACK: u32 = 30;
/// the header's order is not that of the data
pub const TENMAP_FOUND_ORDER: u32 = 31;
/// in a tensor's entry
pub const TENMAP_FOUND_UNKNOWN_FIELD: u32 = 32;
/// no "format" in the metadata
pub const TENMAP_FOUND_NO_FORMAT: u32 = 33;
pub const TENMAP_FOUND_EMPTY_TENSOR: u32 = 34;
pub const TENMAP_FOUND_NO_TENSORS: u32 = 35;
/// empty, a control character, outer spaces, \_\_x\_\_
pub const TENMAP_FOUND_NAME: u32 = 36;
/// its record lies beside the file
pub const TENMAP_FOUND_INTERRUPTED_EDIT: u32 = 37;
/// With TENMAP_OPEN_DEQUANTIZE: parts of a weight, or config.json, do not fit (an error).
pub const TENMAP_FOUND_PARTS: u32 = 38;
/// A PyTorch file's pickle names a class or a function outside of the fixed list of those that
/// stand for data (a warning): Python would import it, and perhaps call it. It is not run here,
/// and the model opens; `tenmap check` exits with 1.
pub const TENMAP_FOUND_CODE: u32 = 39;

/// tenmap_finding.shard of a finding about the index, the folder or the model as a whole.
pub const TENMAP_NO_SHARD: u32 = u32::MAX;

/// One finding. It and its strings live until the callback returns.
#[repr(C)]
pub struct tenmap_finding {
    /// TENMAP_FINDING_\*
    pub severity: u32,
    /// TENMAP_FOUND_\*
    pub code: u32,
    /// by file name, missing ones counted; 0 for a single file
    pub shard: u32,
    /// TENMAP_REMEDY_\*; NONE where options.flags allow it already
    pub remedy: u32,
    /// in that file, where one applies; else 0
    pub offset: u64,
    /// its name, NUL-terminated, where one applies; else NULL
    pub tensor: *const c_char,
    /// as in tenmap_error: it names the file and the tensor
    pub message: *const c_char,
    /// how many findings it stands for: 1, or the rest of its kind
    pub count: u64,
    /// Of TENMAP_FOUND_CODE, where count is 1: what Python would import ("posix.system", escaped and
    /// ```c
    ///        shortened as in messages), and whether it would call it too. Otherwise NULL and 0.
    /// ```
    pub global: *const c_char,
    pub called: u32,
    /// 0
    pub reserved: u32,
}

/// Statistics of one tensor, owned by the caller. BOOL counts as 0 and 1, C64 as twice as many F32,
/// block dtypes as F32; U64 and I64 beyond 2^53 are rounded to F64 first. NaN and infinities are
/// counted and otherwise ignored.
#[repr(C)]
pub struct tenmap_stats {
    /// elements (C64: parts)
    pub count: u64,
    /// of either sign
    pub zeros: u64,
    /// as the dtype has them: not zero, and below its least normal number
    pub subnormals: u64,
    pub nans: u64,
    pub infinities: u64,
    /// of the finite values; NaN if there are none
    pub min: f64,
    /// of the finite values; NaN if there are none
    pub max: f64,
    /// likewise
    pub mean: f64,
    /// likewise: of the population, sqrt(sum((x - mean)^2) / n)
    pub std: f64,
    /// sqrt(sum(x^2)) of the finite values; 0 if there are none
    pub norm: f64,
    pub reserved: [u64; 4],
}

/// Start from TENMAP_STATS_OPTIONS_INIT; NULL means all defaults.
#[repr(C)]
pub struct tenmap_stats_options {
    /// sizeof(tenmap_stats_options): lets the struct grow
    pub struct_size: usize,
    /// 0: the library decides; at most 64, the caller's included
    pub threads: u32,
    /// 0
    pub flags: u32,
    /// of the histogram; 0 without one
    pub bins: u32,
    /// 0
    pub reserved: u32,
    /// The range of every histogram; low == high: each tensor's own, from its min to its max, which
    /// takes a second pass. Bin b counts edge(b) \<= x \< edge(b + 1), the last one also x == high,
    /// and edge(b) is low + b \* ((high - low) / bins), each operation rounded to F64: exactly what
    /// numpy.histogram(x, numpy.linspace(low, high, bins + 1)) counts for x as float64. Values
    /// outside the range, NaN and infinities are in no bin. A tensor of equal values has all of them
    /// in bin 0 of its own range. Where there are more bins than numbers between low and high,
    /// several bins begin at the same number: the last of them gets it.
    pub low: f64,
    /// The range of every histogram; low == high: each tensor's own, from its min to its max, which
    /// takes a second pass. Bin b counts edge(b) \<= x \< edge(b + 1), the last one also x == high,
    /// and edge(b) is low + b \* ((high - low) / bins), each operation rounded to F64: exactly what
    /// numpy.histogram(x, numpy.linspace(low, high, bins + 1)) counts for x as float64. Values
    /// outside the range, NaN and infinities are in no bin. A tensor of equal values has all of them
    /// in bin 0 of its own range. Where there are more bins than numbers between low and high,
    /// several bins begin at the same number: the last of them gets it.
    pub high: f64,
    /// n \* bins counts, tensor after tensor; NULL: none
    pub histogram: *mut u64,
    /// As in tenmap_load_options: on the caller's thread; a nonzero return cancels.
    pub progress: Option<unsafe extern "C" fn(ctx: *mut c_void, done: u64, total: u64) -> c_int>,
    pub ctx: *mut c_void,
}

pub const TENMAP_STATS_OPTIONS_INIT: tenmap_stats_options = {
    // SAFETY: every field is a number, a pointer or an Option of a function, all of
    // which may be zero.
    let mut options: tenmap_stats_options = unsafe { core::mem::zeroed() };
    options.struct_size = core::mem::size_of::<tenmap_stats_options>();
    options
};

unsafe extern "C" {
    /// Bits per element; 0 for a block dtype, an unknown one, TENMAP_AS_STORED and TENMAP_OPAQUE. Dtypes
    /// with bits are numbered from TENMAP_BOOL on without a gap, so this loop visits all of them: for
    /// (tenmap_dtype d = TENMAP_BOOL; tenmap_dtype_bits(d); d++).
    pub fn tenmap_dtype_bits(dtype: tenmap_dtype) -> u32;
    /// The smallest number of elements that takes whole bytes, and those bytes: 32 and 18 for
    /// TENMAP_Q4_0, 4 and 3 for TENMAP_F6_E2M3, 1 and 4 for TENMAP_F32. Returns 1 and sets \*elements and
    /// \*bytes (each may be NULL). Returns 0 and sets nothing for an unknown dtype, TENMAP_AS_STORED and
    /// TENMAP_OPAQUE.
    pub fn tenmap_dtype_block(dtype: tenmap_dtype, elements: *mut u32, bytes: *mut u32) -> c_int;
    /// The bytes that `elements` elements take, next to each other, in a file or a buffer. 4- and 6-bit
    /// elements that end inside a byte take the whole byte. Returns 1 and sets \*bytes (may be NULL).
    /// Returns 0 and sets nothing for a dtype without a size (as tenmap_dtype_block), for a number of
    /// elements that ends inside a block, and where the bits, or a block dtype's bytes, exceed 64 bits.
    pub fn tenmap_dtype_bytes(dtype: tenmap_dtype, elements: u64, bytes: *mut u64) -> c_int;
    /// What kind of number an element is: TENMAP_KIND_\*; those of block dtypes are floating-point.
    pub fn tenmap_dtype_kind(dtype: tenmap_dtype) -> u32;
    /// "BF16", as headers write it; "Q4_K", as ggml does; "UNKNOWN" for an unknown dtype. Static.
    pub fn tenmap_dtype_name(dtype: tenmap_dtype) -> *const c_char;
    /// Returns 1 and sets \*out (may be NULL) if `name` is exactly a dtype's name as above; else 0.
    pub fn tenmap_dtype_from_name(name: *const c_char, out: *mut tenmap_dtype) -> c_int;
    /// Returns the dtype for ggml's number of a tensor type (GGML_TYPE_\*, as in GGUF files), or
    /// TENMAP_AS_STORED if the library has no such dtype. Opening a GGUF file gives its tensors the same
    /// dtypes.
    pub fn tenmap_dtype_from_ggml(r#type: u32) -> tenmap_dtype;
    /// Returns 1 and sets \*type (may be NULL) to ggml's number for the dtype; 0 if ggml has none.
    pub fn tenmap_dtype_to_ggml(dtype: tenmap_dtype, r#type: *mut u32) -> c_int;
    /// "TENMAP_ERR_FORMAT"; "TENMAP_ERR_UNKNOWN" for an unknown value. Static.
    pub fn tenmap_status_name(status: tenmap_status) -> *const c_char;
    /// "repair" for TENMAP_REMEDY_REPAIR, for programs; "unknown" for an unknown value. Static.
    pub fn tenmap_remedy_name(remedy: u32) -> *const c_char;
    /// The instruction set that conversions use on this machine: "avx2", "neon" or "scalar". Static.
    pub fn tenmap_cpu_path() -> *const c_char;
    /// The version of the library at run time: major \* 1,000,000 + minor \* 1,000 + patch. A pre-release
    /// has the number of the release that it precedes.
    pub fn tenmap_version() -> u32;
    /// Converts `count` elements at src to dst, both in the host's byte order; no model is involved. Any
    /// alignment; the buffers must not overlap; with count 0 they may be NULL. Blocks are as files have
    /// them, on every host, and src begins with a whole one. A call that fails writes nothing. After
    /// TENMAP_ERR_RANGE error.index is the number of the element.
    pub fn tenmap_convert(to: tenmap_dtype, dst: *mut c_void, dst_bytes: usize, from: tenmap_dtype, src: *const c_void, count: u64, flags: u32, error: *mut tenmap_error) -> tenmap_status;
    /// tenmap_convert that also counts losses: \*losses is set on success and unchanged on failure; NULL
    /// counts nothing. The source is examined while it is in the cache.
    pub fn tenmap_convert_counted(to: tenmap_dtype, dst: *mut c_void, dst_bytes: usize, from: tenmap_dtype, src: *const c_void, count: u64, flags: u32, losses: *mut tenmap_losses, error: *mut tenmap_error) -> tenmap_status;
    /// Quantizes a matrix of F32 in the host's byte order to a block dtype, as files have it. Each row
    /// of `columns` values is whole blocks; otherwise, and for block dtypes that nothing quantizes to
    /// yet, TENMAP_ERR_UNSUPPORTED. There are Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, TQ1_0, TQ2_0 and MXFP4,
    /// with the bytes that the package gguf writes. dst takes tenmap_dtype_bytes(to, rows \* columns)
    /// bytes (TENMAP_ERR_BUFFER if dst_bytes is less), and must not overlap src. Both may have any
    /// alignment, and may be NULL if there are no elements.
    ///
    /// `importance` is NULL, or says for each column how much an error there matters; these dtypes do
    /// not use it. NaN, infinity, and a scale beyond F16 are TENMAP_ERR_RANGE; error.index is the number
    /// of the element. With TENMAP_CONVERT_SATURATE in `flags`, infinities and scales are clamped; NaN
    /// is not. A call that fails writes nothing. It runs on the caller's thread; rows may be quantized
    /// on several threads at once.
    pub fn tenmap_quantize(to: tenmap_dtype, dst: *mut c_void, dst_bytes: usize, src: *const f32, rows: u64, columns: u64, importance: *const f32, flags: u32, error: *mut tenmap_error) -> tenmap_status;
    /// `path` is a .safetensors file, an index, a GGUF file or a folder. Files are recognized by
    /// content, not by name. The first file of a split GGUF model opens all of them. In a folder, the
    /// first of these that exists is opened: model.safetensors, model.safetensors.index.json,
    /// diffusion_pytorch_model.safetensors, its index; else the only index; else the only complete
    /// numbered set (name-00001-of-00005.safetensors); else the only \*.safetensors file; else likewise
    /// with \*.gguf. docs/format.md has the details. A model's folder in a hub's cache
    /// (models--ORG--NAME) opens as the snapshot that its refs/main names, or as the only snapshot.
    pub fn tenmap_open(path: *const c_char, options: *const tenmap_options, out: *mut *mut tenmap_model, error: *mut tenmap_error) -> tenmap_status;
    /// Opens several files as one model: pieces of it (consolidated.00, consolidated.01), components, or
    /// a base model and files that replace some of its tensors. Each of the `n` paths follows the rules
    /// of tenmap_open, with the same options; options.offset and length need a single path. Shards,
    /// tensors and metadata come path after path, in the order given. If two paths have a tensor of the
    /// same name, the result is TENMAP_ERR_FORMAT, and the message names both files, unless
    /// TENMAP_OPEN_LATER_WINS asks for the later one. With TENMAP_OPEN_PARTIAL a path that does not
    /// exist counts as a missing shard (tenmap_missing_at has it as given).
    ///
    /// tenmap_path and tenmap_folder return those of the first path, and tenmap_index_json that of the
    /// first index; tenmap_listed_at covers all indexes. If a path cannot be opened, error.index is its
    /// number, and error.shard is the number of a shard within that path.
    pub fn tenmap_open_list(paths: *const *const c_char, n: usize, options: *const tenmap_options, out: *mut *mut tenmap_model, error: *mut tenmap_error) -> tenmap_status;
    /// Opens a single SafeTensors or GGUF file behind a descriptor that pread can read and, for the MAP
    /// backend, mmap can map. The descriptor is duplicated: the caller's stays open, and its offset does
    /// not move.
    pub fn tenmap_open_fd(fd: c_int, options: *const tenmap_options, out: *mut *mut tenmap_model, error: *mut tenmap_error) -> tenmap_status;
    /// The same for a file in memory. The bytes are borrowed until tenmap_close and must not change. The
    /// header is copied, so even a caller that changes it cannot harm the library.
    pub fn tenmap_open_memory(bytes: *const c_void, size: usize, options: *const tenmap_options, out: *mut *mut tenmap_model, error: *mut tenmap_error) -> tenmap_status;
    /// Frees the model and invalidates all its views. NULL is allowed.
    pub fn tenmap_close(model: *mut tenmap_model);
    pub fn tenmap_count(model: *const tenmap_model) -> usize;
    /// In file order: shards by file name, then begin offset, end offset, header order.
    pub fn tenmap_at(model: *const tenmap_model, i: usize) -> *const tenmap_tensor;
    /// In the order of the headers, not of the data: shards by file name, then header_position. O(1).
    pub fn tenmap_at_written(model: *const tenmap_model, i: usize) -> *const tenmap_tensor;
    /// The tensor of exactly this name, or NULL. O(1), whatever the names are. For an alias
    /// (TENMAP_OPEN_ALIASES), the tensor that it stands for, under that tensor's own name.
    pub fn tenmap_find(model: *const tenmap_model, name: *const c_char) -> *const tenmap_tensor;
    /// The same; `len` in bytes, or TENMAP_CSTR. Finds names that hold NUL.
    pub fn tenmap_find_n(model: *const tenmap_model, name: *const c_char, len: usize) -> *const tenmap_tensor;
    /// The path as given to tenmap_open; "" for a descriptor or memory.
    pub fn tenmap_path(model: *const tenmap_model) -> *const c_char;
    /// The folder of the model's files, where config.json and the tokenizer would be: "FOLDER" for
    /// "FOLDER/model.safetensors", "." for a path without a folder, the path itself if it is a folder.
    /// Only a root ends in '/'. With options.io, everything from the first '?' on is ignored, and the
    /// folder is what precedes the last '/', or "" if there is none. "" for a descriptor or memory.
    pub fn tenmap_folder(model: *const tenmap_model) -> *const c_char;
    /// Sum over the shards that are open.
    pub fn tenmap_file_size(model: *const tenmap_model) -> u64;
    pub fn tenmap_shard_count(model: *const tenmap_model) -> usize;
    pub fn tenmap_shard_at(model: *const tenmap_model, i: usize) -> *const tenmap_shard;
    /// Shards that TENMAP_OPEN_PARTIAL found missing, as the index or tenmap_open_list names them.
    pub fn tenmap_missing_count(model: *const tenmap_model) -> usize;
    pub fn tenmap_missing_at(model: *const tenmap_model, i: usize) -> *const c_char;
    /// The file in which the index lists the tensor of exactly this name, as the index names it, whether
    /// it exists or not. NULL if the index does not list the tensor, or there is no index. O(1).
    pub fn tenmap_shard_listed(model: *const tenmap_model, name: *const c_char) -> *const c_char;
    /// The names that the index lists, in its order, NUL-terminated.
    pub fn tenmap_listed_count(model: *const tenmap_model) -> usize;
    pub fn tenmap_listed_at(model: *const tenmap_model, i: usize) -> *const c_char;
    /// All shards' metadata in shard order, each in header order.
    pub fn tenmap_metadata_count(model: *const tenmap_model) -> usize;
    pub fn tenmap_metadata_at(model: *const tenmap_model, i: usize) -> *const tenmap_metadata;
    /// The value in the first shard that has the key, or NULL. A linear scan.
    pub fn tenmap_metadata_get(model: *const tenmap_model, key: *const c_char) -> *const c_char;
    /// The pair's value. Walk arrays with tenmap_value_next; fixed-width elements may be read from raw.
    pub fn tenmap_metadata_value(pair: *const tenmap_metadata, out: *mut tenmap_value);
    /// Takes the next element of an array, without copying: \*array is then the rest. Returns 1 and sets
    /// \*element, which may itself be an array; returns 0 if no element is left or \*array is not an
    /// array. Neither may be NULL, and they must be different objects.
    pub fn tenmap_value_next(array: *mut tenmap_value, element: *mut tenmap_value) -> c_int;
    /// Writes the text of a value that is not an array, as in tenmap_metadata.value, NUL-terminated and
    /// cut to `room` bytes. Returns its full length in bytes.
    pub fn tenmap_value_text(value: *const tenmap_value, out: *mut c_char, room: usize) -> usize;
    /// The index's text as read, NUL-terminated, its length in \*len (may be NULL); NULL if no index.
    pub fn tenmap_index_json(model: *const tenmap_model, len: *mut usize) -> *const c_char;
    /// The dtype as the header writes it, also for TENMAP_OPAQUE. Unescaped text from the file, valid
    /// until close; "UNKNOWN" for NULL.
    pub fn tenmap_dtype_text(tensor: *const tenmap_tensor) -> *const c_char;
    /// The tensor's bytes themselves. They must have this dtype (or TENMAP_AS_STORED), be aligned for
    /// their element, and be mapped. On a big-endian host, they must also need no alignment beyond one
    /// byte, since files are little-endian. Otherwise the result is NULL and an error. View
    /// TENMAP_OPAQUE tensors with TENMAP_OPAQUE or TENMAP_AS_STORED.
    pub fn tenmap_view(tensor: *const tenmap_tensor, dtype: tenmap_dtype, error: *mut tenmap_error) -> *const c_void;
    /// Converts elements \[first, first+count) into dst, in the host's byte order, on any backend. Block
    /// dtypes can be read as floats starting at any element; as they are stored, only in whole blocks
    /// (otherwise TENMAP_ERR_RANGE). The same holds for slices and loads.
    pub fn tenmap_read(tensor: *const tenmap_tensor, first: u64, count: u64, r#as: tenmap_dtype, dst: *mut c_void, dst_bytes: usize, flags: u32, error: *mut tenmap_error) -> tenmap_status;
    /// Reads the block begin\[d\] \<= i\[d\] \< end\[d\], one pair per dimension, in row-major order. For a
    /// scalar, begin and end may be NULL. An empty block writes nothing.
    pub fn tenmap_read_slice(tensor: *const tenmap_tensor, begin: *const u64, end: *const u64, r#as: tenmap_dtype, dst: *mut c_void, dst_bytes: usize, flags: u32, error: *mut tenmap_error) -> tenmap_status;
    /// Reads bytes whose dtype is not the one in the header: F4 blocks kept as U8, F8 as I8, BF16 as
    /// U16, a dtype that is TENMAP_OPAQUE here. The tensor's bytes are interpreted as elements of
    /// `stored_as`, one after the other, in the file's byte order. `first` and `count` count these
    /// elements. If `as` is TENMAP_AS_STORED, it means `stored_as`. Any dtype of a known width is
    /// allowed if the tensor's bytes are a whole number of its elements; otherwise
    /// TENMAP_ERR_UNSUPPORTED. If `stored_as` is TENMAP_AS_STORED, this is tenmap_read.
    pub fn tenmap_read_as(tensor: *const tenmap_tensor, stored_as: tenmap_dtype, first: u64, count: u64, r#as: tenmap_dtype, dst: *mut c_void, dst_bytes: usize, flags: u32, error: *mut tenmap_error) -> tenmap_status;
    /// The tensor's file bytes \[offset, offset+bytes) as they are: any dtype, opaque ones included.
    pub fn tenmap_read_bytes(tensor: *const tenmap_tensor, offset: u64, bytes: usize, dst: *mut c_void, error: *mut tenmap_error) -> tenmap_status;
    /// How the elements of a tensor with the scheme "strided" lie in its part: the distance from one
    /// index to the next, in elements, for each of its `rank` axes; 0 repeats an axis. Element 0 is the
    /// part's first. NULL for all other tensors, whose elements lie one after the other or are computed.
    /// Owned by the library, valid until tenmap_close.
    pub fn tenmap_strides(tensor: *const tenmap_tensor) -> *const u64;
    /// Advice about one tensor of the model, or about all of it with NULL.
    pub fn tenmap_advise(model: *const tenmap_model, tensor: *const tenmap_tensor, advice: u32, error: *mut tenmap_error) -> tenmap_status;
    /// Advice about several tensors in any order; they are processed in file order. A page that two
    /// tensors in the list share is covered, even if advice about either of them alone would not cover
    /// it. TENMAP_ERR_ARGUMENT if a tensor is NULL or of another model; error.index is its position.
    /// After any other error, the tensors that precede the failing one in the file have been processed.
    pub fn tenmap_advise_list(model: *const tenmap_model, tensors: *const *const tenmap_tensor, count: usize, advice: u32, error: *mut tenmap_error) -> tenmap_status;
    /// How many bytes of the tensor (NULL: of all) are mapped in this process, as its RSS counts them; 0
    /// with TENMAP_BACKEND_READ. TENMAP_ERR_UNSUPPORTED on systems that do not tell (Linux and Windows
    /// do). Each byte counts for its own tensor only. The answer may be out of date when it arrives.
    pub fn tenmap_resident(model: *const tenmap_model, tensor: *const tenmap_tensor, bytes: *mut u64, error: *mut tenmap_error) -> tenmap_status;
    /// How many bytes of the tensor (NULL: of all) are in the page cache, whoever brought them in; 0 for
    /// a model in memory. For users who neither own the file nor may write to it, Linux reports all
    /// bytes as cached.
    pub fn tenmap_cached(model: *const tenmap_model, tensor: *const tenmap_tensor, bytes: *mut u64, error: *mut tenmap_error) -> tenmap_status;
    /// The same for bytes \[first_byte, first_byte + bytes) of one tensor, counted from its first byte.
    /// Such a range may be one expert of a tensor that holds all experts of a layer, or the rows that a
    /// rank needs. The range is treated like a tensor, and the rest of the tensor like its neighbors:
    /// releasing an expert leaves the pages that it shares with the next one. A range of 0 bytes is
    /// allowed and covers nothing.
    ///
    /// TENMAP_ERR_RANGE if the range is not inside the tensor. TENMAP_ERR_UNSUPPORTED for a
    /// TENMAP_TENSOR_COMPUTED tensor, which has no bytes of its own; its parts have (tenmap_part_at).
    pub fn tenmap_advise_range(tensor: *const tenmap_tensor, first_byte: u64, bytes: u64, advice: u32, error: *mut tenmap_error) -> tenmap_status;
    pub fn tenmap_resident_range(tensor: *const tenmap_tensor, first_byte: u64, bytes: u64, resident: *mut u64, error: *mut tenmap_error) -> tenmap_status;
    pub fn tenmap_cached_range(tensor: *const tenmap_tensor, first_byte: u64, bytes: u64, cached: *mut u64, error: *mut tenmap_error) -> tenmap_status;
    /// All requests must be for tensors of this model; if `model` is NULL, they may be for tensors of
    /// any models, opened in any way. All arguments are checked before a byte is written. error.index is
    /// the number of the request that failed, and the message names its tensor. After an error or a
    /// cancel (TENMAP_ERR_CANCELLED) every thread has stopped, and the contents of all dst are
    /// undefined, except for requests that `done` reported as TENMAP_OK. The callbacks may use the model
    /// but must not close it.
    pub fn tenmap_load(model: *const tenmap_model, requests: *const tenmap_request, count: usize, options: *const tenmap_load_options, error: *mut tenmap_error) -> tenmap_status;
    /// Detach
    ///
    /// A mapping shows the file as it is: if somebody truncates the file, readers get SIGBUS; if
    /// somebody overwrites it, their weights change. tenmap_detach reads a mapped model once into memory
    /// of this process, on huge pages where possible, and puts that memory in the mapping's place. Every
    /// view, tensor.data and shard.base keeps its address and its bytes, for any number of reading
    /// threads, even while the call runs. Afterwards the file is closed and may be truncated, replaced,
    /// deleted or unmounted.
    ///
    /// It takes as much memory as the files have bytes. At most 16 MiB per thread are in memory twice at
    /// a time. The options are those of tenmap_load: TENMAP_LOAD_DIRECT bypasses the page cache and
    /// reads straight into place; progress counts bytes of the files; `done` is called on the caller's
    /// thread with a shard's number once that shard is in memory. Callbacks must not call tenmap_detach,
    /// tenmap_advise or tenmap_advise_list.
    ///
    /// TENMAP_ERR_IO if a file has changed since it was opened. After an error or a cancel
    /// (TENMAP_ERR_CANCELLED) all bytes can be read as before, from memory or from the mapping. Calling
    /// it again continues where it stopped; once everything is detached, a call does nothing.
    ///
    /// On detached memory, TENMAP_ADVISE_RELEASE, PREFETCH and POPULATE do nothing, tenmap_cached is 0,
    /// and TENMAP_LOAD_READ and DIRECT copy from memory; pages that were locked by TENMAP_ADVISE_LOCK
    /// are locked again. tenmap_advise on other threads waits until the call ends. shard.fd becomes -1,
    /// and nobody may use it while the call runs. Parts of the mapping that were registered with a
    /// device or another library must be registered again. As with tenmap_close, only the model's owner
    /// may make this call, but others may read while it runs. A child of fork has the bytes that the
    /// model had at the time of the fork.
    ///
    /// TENMAP_ERR_UNSUPPORTED for models that are not mapped (TENMAP_BACKEND_READ, tenmap_io, memory),
    /// and on systems other than Linux.
    pub fn tenmap_detach(model: *mut tenmap_model, options: *const tenmap_load_options, error: *mut tenmap_error) -> tenmap_status;
    /// Fills data and tensor of every want, or lists in one error which ones failed: the first few by
    /// name, each with its reason, then how many more. The status is that of the first failure, whose
    /// number is error.index: TENMAP_ERR_NOT_FOUND if it is missing, TENMAP_ERR_RANGE if its shape
    /// differs or the slice is not inside it, TENMAP_ERR_BUFFER if its destination is too small,
    /// TENMAP_ERR_UNSUPPORTED if its dtype does not convert. On failure all data, tensor and \*arena are
    /// NULL, all nbytes are 0, and nothing is kept.
    ///
    /// \*arena is options.append if that was given. Otherwise it is NULL if all weights are views or in
    /// the caller's memory. Free an arena with tenmap_arena_free. It is separate memory, on huge pages
    /// (tenmap_alloc) or from options.alloc, and may outlive the model; views may not. All tensors of a
    /// model without a mapping are copied. A name may be wanted twice.
    ///
    /// Options, progress and cancelling are as in tenmap_load; progress counts the bytes that are
    /// copied. `done` is called once for each want, with its number, when its data is in place; for
    /// views and missing optional wants, this happens on the caller's thread, before the load begins.
    pub fn tenmap_take(model: *const tenmap_model, wants: *mut tenmap_want, n: usize, options: *const tenmap_load_options, arena: *mut *mut tenmap_arena, error: *mut tenmap_error) -> tenmap_status;
    /// Frees what was appended to the arena, too. NULL is allowed. Any thread may call this.
    pub fn tenmap_arena_free(arena: *mut tenmap_arena);
    /// Memory for destinations: zeroed, aligned to 2 MiB, on huge pages if the system has them, so that
    /// touching it for the first time is several times cheaper than with malloc. Not for small pieces:
    /// each allocation takes whole pages, plus one page. NULL if memory runs out. tenmap_free accepts
    /// NULL, on any thread.
    pub fn tenmap_alloc(bytes: usize) -> *mut c_void;
    pub fn tenmap_free(memory: *mut c_void);
    /// Never NULL: "none" for NULL and for a tensor whose elements are stored directly. The scheme of a
    /// block dtype is its name in lower case, without parts: TENMAP_Q4_K is "q4_k", 4 bits, groups of 1
    /// x 32.
    pub fn tenmap_scheme_of(tensor: *const tenmap_tensor) -> *const tenmap_scheme;
    /// The i-th part of a TENMAP_TENSOR_COMPUTED tensor, as stored; NULL past the end. The parts that
    /// the weight has come in this order: VALUES, SCALES, ZEROS or BIASES, GLOBAL_SCALE, GROUP_INDEX,
    /// TABLE, NESTED_SCALES, NESTED_TABLE, OTHER. There may be several OTHER, but at most one of each
    /// other kind. Every call that takes a tensor takes parts. tenmap_at and tenmap_find do not return
    /// them.
    pub fn tenmap_part_at(tensor: *const tenmap_tensor, i: u32) -> *const tenmap_tensor;
    /// TENMAP_PART_\* of the i-th part; 0 past the end and for a tensor without parts.
    pub fn tenmap_part_role(tensor: *const tenmap_tensor, i: u32) -> u32;
    /// NULL for tensors whose values are not packed codes: plain and strided tensors, block dtypes.
    /// Opening the model checked everything in it against the parts, except for the numbers in
    /// GROUP_INDEX: check these before you use them.
    pub fn tenmap_packing_of(tensor: *const tenmap_tensor) -> *const tenmap_packing;
    /// For a model that is opened as it is stored. Returns 1 and sets \*out (may be NULL) if `tensor`
    /// holds the codes of a quantized weight and a part that tells its family is there too; else 0, and
    /// sets nothing. Families that the library cannot dequantize are recognized as well. Whether parts
    /// fit together is not checked. May read a part of at most 64 bytes, which holds the weight's shape.
    pub fn tenmap_quantized_of(tensor: *const tenmap_tensor, out: *mut tenmap_quantized) -> c_int;
    /// The name of the i-th family that tenmap_quantized_of knows; NULL past the end. Static.
    pub fn tenmap_family_at(i: usize) -> *const c_char;
    /// Fills out\[0..16) with the model's fingerprint, and the rest of out with zeros.
    ///
    /// Without flags, the call reads the headers again, but no tensor. The fingerprint covers the size,
    /// modification time and header text of each file, the index, which tensors the model lists, and how
    /// they are dequantized. If two opens give equal fingerprints, the files have not been written in
    /// between, as far as their times tell. Paths do not matter. The definition may change from version
    /// to version, so store such a fingerprint only in caches. TENMAP_ERR_IO if a file has changed since
    /// it was opened; TENMAP_ERR_UNSUPPORTED with options.io and for memory.
    ///
    /// With TENMAP_FINGERPRINT_VALUES, the call reads every byte of the tensors, with as many threads as
    /// the library chooses. The fingerprint depends on the names, dtypes, shapes and bytes of all
    /// tensors of tenmap_at. It does not depend on their order, shards, alignment and metadata. The
    /// tool's `hash --model` prints the same. The definition never changes; docs/tool.md has it.
    ///
    /// On failure, out is unchanged. tenmap_fingerprint_tensors describes the failures of reading.
    pub fn tenmap_fingerprint(model: *const tenmap_model, flags: u32, out: *mut u8, error: *mut tenmap_error) -> tenmap_status;
    /// Computes the fingerprints of n tensors, of one model or of several, on any backend, at close to
    /// the speed of memory. That of tensor i is TENMAP_FINGERPRINT_BYTES bytes long, at out + i \*
    /// TENMAP_FINGERPRINT_BYTES. It depends on the tensor's dtype, shape and bytes as the file has them,
    /// not on its name or place. For a dequantized weight, the bytes are those that a plain tensor of
    /// its dtype would have. The number of threads and the CPU change nothing.
    ///
    /// Bytes that are not in memory are read in pieces of 16 MiB, one for each thread; pages of a mapped
    /// tensor are brought in as with TENMAP_ADVISE_POPULATE. error.index is the tensor's number. After
    /// an error or a cancel (TENMAP_ERR_CANCELLED) the contents of out are undefined.
    pub fn tenmap_fingerprint_tensors(tensors: *const *const tenmap_tensor, n: usize, options: *const tenmap_fingerprint_options, out: *mut u8, error: *mut tenmap_error) -> tenmap_status;
    /// Computes the model's fingerprint, TENMAP_FINGERPRINT_BYTES bytes, from those of its tensors. The
    /// result is that of tenmap_fingerprint with TENMAP_FINGERPRINT_VALUES. `tensors` holds the
    /// fingerprints of tenmap_at(model, 0), tenmap_at(model, 1) and so on. Reads no tensor.
    pub fn tenmap_fingerprint_combine(model: *const tenmap_model, tensors: *const u8, out: *mut u8, error: *mut tenmap_error) -> tenmap_status;
    /// Makes a model of `n` tensors, which tenmap_at has in the order given. It reads no tensor data and
    /// opens no file. `options` is NULL or all defaults. Close it with tenmap_close, before the models
    /// of its terms. On failure \*out is NULL, and error.index is the number of the tensor that is wrong,
    /// whose name is in the message.
    ///
    /// What it has: tenmap_path, tenmap_folder and the metadata are those of the model of the first term
    /// (metadata.shard counts that model's shards). tenmap_shard_at gives the shards that terms use, in
    /// the order of their first use: views of the models that they belong to, whose first_tensor and
    /// tensor_count count the tensors of those. There is no index, and nothing is missing.
    ///
    /// Dtypes: RENAME, CONCAT and STACK move elements of any dtype of whole bytes bit for bit. All terms
    /// have one dtype, and `dtype` is that or AS_STORED. Rows of a block dtype are moved whole, or in
    /// whole blocks. Quantized weights (TENMAP_OPEN_DEQUANTIZE) and other terms that are values move as
    /// their values: a read as F32 gives the same as a read of the term. SUM, LOW_RANK and CALL take
    /// floating-point terms, block dtypes and quantized weights included, as the values that tenmap_read
    /// gives as F64, and give F64 values, which are rounded once, to what a read asks for. AS_STORED is
    /// term 0's dtype if that is F64, F32, F16 or BF16, else F32. A `dtype` of less than a byte, a block
    /// dtype, integers, BOOL and C64 are TENMAP_ERR_UNSUPPORTED for them. Nothing broadcasts.
    ///
    /// Views: a RENAME of a whole tensor, or of a part of a stored one whose bytes lie together, is a
    /// view: it costs nothing, has `data` where its term has it, and keeps the scheme and the parts of
    /// a quantized weight if its shape stays the same. Any other tensor has TENMAP_TENSOR_COMPUTED and
    /// the scheme "derived"; tenmap_part_at gives its terms, TENMAP_PART_TERM. Its shard and file_offset
    /// are those of its first term.
    ///
    /// Limits: terms may be derived tensors, up to 8 deep. A thread that reads a tensor has the state of
    /// one term at a time for each level of that depth, up to 2 MB a level, and with LOW_RANK the
    /// values of A and B as F64, which it reads once for each tensor. A large tensor that is asked for
    /// in small pieces is computed in small pieces: LOW_RANK reads A and B again in every call.
    ///
    /// All other calls work as with any model, except that tenmap_detach is TENMAP_ERR_UNSUPPORTED, and
    /// so is tenmap_fingerprint without TENMAP_FINGERPRINT_VALUES. Advice and questions about memory go
    /// to everything that a tensor is computed from; progress counts a term as often as it is used. If a
    /// file of a term changes or cannot be read, calls fail as they do for the term.
    ///
    /// Thread rule: as tenmap_open, and the models of the terms must stay open meanwhile.
    pub fn tenmap_derive(tensors: *const tenmap_derived, n: usize, options: *const tenmap_options, out: *mut *mut tenmap_model, error: *mut tenmap_error) -> tenmap_status;
    /// A header has at most 100,000,000 bytes, as readers allow by default: the text of a SafeTensors
    /// file, everything before the data of a GGUF file. Longer ones are TENMAP_ERR_LIMIT when the first
    /// bytes are written, or at commit.
    ///
    /// End every writer with one commit or abort. The file gets the mode and, if permitted, the owner of
    /// the file that it replaces, and never gives more rights. Only regular files are replaced.
    pub fn tenmap_writer_create(path: *const c_char, options: *const tenmap_writer_options, out: *mut *mut tenmap_writer, error: *mut tenmap_error) -> tenmap_status;
    /// Lengths are in bytes or TENMAP_CSTR; everything is copied. Names and keys are UTF-8 and unique,
    /// and no tensor is called `__metadata__`. A refused call changes nothing. \*id (may be NULL) counts
    /// from 0. Nothing can be added once bytes have been written.
    pub fn tenmap_writer_metadata(writer: *mut tenmap_writer, key: *const c_char, key_len: usize, value: *const c_char, value_len: usize, error: *mut tenmap_error) -> tenmap_status;
    /// Metadata of any type (TENMAP_VALUE_\*), as tenmap_metadata_value gives it: raw is in file order
    /// (little-endian), and may be NULL if raw_bytes is 0. A STRING of a GGUF file need not be UTF-8. An
    /// array's elements are checked too: their count must be value-\>count, and together they must take
    /// raw_bytes. SafeTensors files hold only strings: other types are TENMAP_ERR_UNSUPPORTED there.
    ///
    /// GGUF: general.alignment must be options.data_alignment as a U32, split.no, split.count and
    /// split.tensors.count must be integers that are not negative, and the library sets tenmap.padding
    /// itself; otherwise TENMAP_ERR_ARGUMENT.
    pub fn tenmap_writer_value(writer: *mut tenmap_writer, key: *const c_char, key_len: usize, value: *const tenmap_value, error: *mut tenmap_error) -> tenmap_status;
    /// Metadata that is an array of n strings, such as the tokens of a vocabulary. `lengths` are in
    /// bytes or TENMAP_CSTR; NULL: all strings end with a NUL.
    pub fn tenmap_writer_strings(writer: *mut tenmap_writer, key: *const c_char, key_len: usize, strings: *const *const c_char, lengths: *const usize, n: u64, error: *mut tenmap_error) -> tenmap_status;
    /// Declares a tensor. What GGUF cannot hold is TENMAP_ERR_UNSUPPORTED: names over 63 bytes, more
    /// than four axes, dtypes without a ggml number (tenmap_dtype_to_ggml), and rows that are not whole
    /// blocks of a block dtype. SafeTensors holds no block dtypes.
    pub fn tenmap_writer_add(writer: *mut tenmap_writer, name: *const c_char, name_len: usize, dtype: tenmap_dtype, shape: *const u64, rank: u32, id: *mut usize, error: *mut tenmap_error) -> tenmap_status;
    /// File-order (little-endian) bytes, each written once. A failure of the system is final.
    pub fn tenmap_writer_write(writer: *mut tenmap_writer, id: usize, offset: u64, data: *const c_void, bytes: usize, error: *mut tenmap_error) -> tenmap_status;
    /// Copies a whole tensor of an open model and converts it (TENMAP_CONVERT_\* flags) if the dtypes
    /// differ. If the source file's size or modification time has changed since it was opened, the
    /// result is TENMAP_ERR_IO on every backend, and the writer can only be aborted. The same holds for
    /// lists and sharded saves.
    pub fn tenmap_writer_copy(writer: *mut tenmap_writer, id: usize, tensor: *const tenmap_tensor, flags: u32, error: *mut tenmap_error) -> tenmap_status;
    /// Source i becomes tensor i of the writer, for all n, on several threads, in a few MiB of memory.
    /// Only tensor, data and flags of a source are used here: the rest was declared. All sources are
    /// checked before a byte is written; error.index says which one failed. After a failure or a cancel
    /// (TENMAP_ERR_CANCELLED) no thread is left, and the writer can only be aborted.
    pub fn tenmap_writer_copy_list(writer: *mut tenmap_writer, sources: *const tenmap_source, n: usize, options: *const tenmap_copy_options, error: *mut tenmap_error) -> tenmap_status;
    /// All or nothing: frees the writer in either case. Fails if bytes are missing. If the message says
    /// "replaced, durability unknown", the file is in place but its folder could not be synced.
    pub fn tenmap_writer_commit(writer: *mut tenmap_writer, error: *mut tenmap_error) -> tenmap_status;
    /// leaves no trace; NULL is allowed
    pub fn tenmap_writer_abort(writer: *mut tenmap_writer);
    /// All edits or none; \*how (may be NULL) says which way was taken.
    pub fn tenmap_edit_metadata(path: *const c_char, edits: *const tenmap_edit, n: usize, options: *const tenmap_edit_options, how: *mut u32, error: *mut tenmap_error) -> tenmap_status;
    /// Renames tensors of one file and edits its metadata (edit_count may be 0), in one step and in the
    /// ways of tenmap_edit_metadata: neither the data nor the order of the tensors changes. All names
    /// change at once or none does, so tensors can swap names. Refused, with error.index:
    /// TENMAP_ERR_NOT_FOUND for a tensor that does not exist; TENMAP_ERR_ARGUMENT for one that is given
    /// twice, a name that two tensors would have, "\_\_metadata\_\_", and text that is not UTF-8. Files that
    /// list names elsewhere are not changed, so a file with the name of a shard ("-00001-of-00003") is
    /// refused too: save such a model anew. In a GGUF file, a new name over 63 bytes is
    /// TENMAP_ERR_UNSUPPORTED.
    pub fn tenmap_rename(path: *const c_char, names: *const tenmap_renaming, n: usize, edits: *const tenmap_edit, edit_count: usize, options: *const tenmap_edit_options, how: *mut u32, error: *mut tenmap_error) -> tenmap_status;
    /// Finishes or undoes an interrupted edit or renaming. Refuses if the record and the file do not
    /// belong together, and writes only a header with the same dtypes, shapes and offsets.
    pub fn tenmap_repair_metadata(path: *const c_char, flags: u32, how: *mut u32, error: *mut tenmap_error) -> tenmap_status;
    /// A call that fails before the rename leaves the folder as it was.
    pub fn tenmap_save_sharded(folder: *const c_char, sources: *const tenmap_source, n: usize, options: *const tenmap_save_options, error: *mut tenmap_error) -> tenmap_status;
    /// Calls `found` with everything that is wrong or odd about what `path` holds, on the caller's
    /// thread, in the order in which it is found. If tenmap_open refuses the model with these options,
    /// there is at least one error, and the first is tenmap_open's; if it opens, there is none. (Limits
    /// of the process, its descriptors and its address space, are not checked: shards are opened one at
    /// a time, and none is mapped.) After a broken rule the check continues with the next tensor and the
    /// next shard; only text that is not JSON ends it for that file. Of each code and severity the first
    /// 32 are reported one by one. If there are more, a last finding has their number in `count`.
    ///
    /// TENMAP_OK if the check could be carried out, whatever it found. Otherwise, as with a path that
    /// does not exist or a folder that does not hold one model, the error says why; findings may have
    /// come before it. Reads headers only, no tensor data. Time and memory are linear in them (except
    /// for a sort where tensors are out of order). options.backend and threads are ignored.
    pub fn tenmap_check(path: *const c_char, options: *const tenmap_options, found: Option<unsafe extern "C" fn(ctx: *mut c_void, finding: *const tenmap_finding)>, ctx: *mut c_void, error: *mut tenmap_error) -> tenmap_status;
    /// "hole" for TENMAP_FOUND_HOLE, for programs; "unknown" for an unknown value. Static.
    pub fn tenmap_found_name(code: u32) -> *const c_char;
    /// Measures n tensors, of one model or of several, on any backend, into out\[0..n), in one pass at
    /// close to the speed of memory. No tensor is ever in memory as a whole. Counts, min and max are
    /// exact. std and norm are right to 1e-12 of themselves, mean to 1e-12 of the larger of itself and
    /// std, for every dtype, whatever the values: also where std is tiny beside the mean, where squares
    /// would overflow or underflow, and where there are outliers. The exceptions are
    /// - results below the least normal F64, 2.2e-308: they are right to 4.9e-324;
    /// - a norm beyond the largest F64, which is infinite (mean and std cannot be beyond it);
    /// - U64 and I64 beyond 2^53, see above: the rounded values are measured.
    ///
    /// The numbers do not depend on the number of threads, and the paths for different CPUs give the
    /// same bits. Nor do they depend on what the caller set for denormals, except for mean, std and norm
    /// of F64 subnormals.
    ///
    /// TENMAP_OPAQUE is TENMAP_ERR_UNSUPPORTED, before anything is read. error.index is the tensor's
    /// number. After an error or a cancel (TENMAP_ERR_CANCELLED) the contents of out and of the
    /// histogram are undefined. Pages of a mapped tensor that are not in the page cache are brought in
    /// as with TENMAP_ADVISE_POPULATE, a few MiB at a time.
    pub fn tenmap_measure(tensors: *const *const tenmap_tensor, n: usize, options: *const tenmap_stats_options, out: *mut tenmap_stats, error: *mut tenmap_error) -> tenmap_status;
}
