/*
 * Measures the values of tensors. A tensor is split into units of UNIT_ELEMENTS, and a unit into
 * blocks. The sums of a block become its mean and its squared deviations from the mean, which are
 * merged in the order of the blocks and of the units. The splits depend on the tensor alone, so the
 * results do not depend on which thread works on what. A block whose sums lost precision is summed
 * once more, about its mean.
 *
 * Elements of at most 8 bits are counted by their codes, of which there are at most 256. Elements
 * of 16 bits are counted by their codes too, for a histogram.
 */
#include "../model/computed.h"
#include "values.h"
#include "cpu.h"
#include "histogram.h"
#include "../kernels/moments.h"

#ifndef TENMAP_NO_MEASURE

#include <stdlib.h>
#include <string.h>

/* Elements per unit: whole blocks, and 2 MiB of BF16. */
enum { UNIT_ELEMENTS = 256 * TMI_MEASURE_BLOCK };
/* Units planned at a time: memory does not grow with the sizes that a file claims. */
enum { MOST_UNITS = 1 << 16 };
/* Blocks read at once if there is no mapping. */
enum { WINDOW_BLOCKS = 32 };
/* From this many elements of a unit on, a table of 65,536 counts pays off. */
enum { LEAST_COUNTED = 1 << 16 };
/* Each bin has this many counters, so that equal neighbors do not wait for each other. */
enum { BIN_PARTS = 4 };
enum { MOST_MEASURE_THREADS = 16 };

/* What is known of some elements of a tensor. */
typedef struct moments {
    uint64_t zeros, subnormals, nans, infinities;
    double min, max;         /* of the finite values */
    tmi_mean_squares spread; /* of the finite values */
} moments;

typedef struct measure_unit {
    size_t tensor;
    uint64_t first, count;
    moments result;
} measure_unit;

typedef struct measure_job {
    const tenmap_tensor *const *tensors;
    size_t count;
    tenmap_stats_options options;
    tenmap_stats *out;
    tmi_block unit_block;
    measure_unit *units; /* in the order of the tensors, and in order within each tensor */
    size_t unit_count, most_units;
    size_t planned;       /* the tensor of the next unit, */
    uint64_t first;       /* and the unit's first element */
    size_t finished;      /* number of tensors whose results are in `out`, */
    moments sum;          /* and what is known of the next one */
    bool binning;         /* this pass fills the histogram, and measures only if `both` is set */
    bool both;            /* this pass measures, even if it fills the histogram */
    pthread_mutex_t lock; /* guards the histogram */
    tmi_job run;          /* progress in bytes of all passes */
} measure_job;

/* The state of one thread. */
typedef struct measurer {
    measure_job *job;
    tmi_window window; /* on tensors that are not in memory; its buffer is allocated on first use */
    tmi_block buffer;
    tmi_source *source; /* for computed values, which go into `computed` */
    tmi_block computed;
    /*
     * The unit's counters: BIN_PARTS sets, each with one more for values outside; and the edges of
     * the bins.
     */
    uint32_t *bins;
    double *edges;
    int32_t *edge_keys;
    tmi_block counts;  /* by 16-bit codes; zero between units, */
    uint32_t *counted; /* and the same if this unit is counted that way, otherwise NULL */
    float unpacked[TMI_MEASURE_BLOCK];  /* a block of a block dtype */
    double values[TMI_MEASURE_BLOCK];   /* a block as F64, or as F32 */
    uint32_t places[TMI_MEASURE_BLOCK]; /* and the bins of its elements */
} measurer;

/* Numbers. */

static double quiet_nan(void) {
    const uint64_t bits = UINT64_C(0x7ff8000000000000);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static moments no_moments(void) {
    return (moments){.min = quiet_nan(), .max = quiet_nan()};
}

/* Merges b, whose elements follow those of a, into a. */
static void merge_moments(moments *a, const moments *b) {
    a->zeros += b->zeros;
    a->subnormals += b->subnormals;
    a->nans += b->nans;
    a->infinities += b->infinities;
    if (b->spread.count == 0)
        return;
    bool first = a->spread.count == 0;
    a->min = first || b->min < a->min ? b->min : a->min;
    a->max = first || b->max > a->max ? b->max : a->max;
    tmi_mean_squares_merge(&a->spread, &b->spread);
}

/* The dtype that a block's elements are summed as: F32 if it holds them exactly. */
static tenmap_dtype sum_dtype(tenmap_dtype dtype) {
    unsigned bits = tmi_dtypes[dtype].bits;
    if (dtype == TENMAP_F32 || dtype == TENMAP_C64 || bits <= 16)
        return TENMAP_F32;
    return TENMAP_F64;
}

/* Elements of more than 8 bits, in blocks. */

/* A part of a block as F32 or F64 in host order: in place, or converted into m->values. */
static const void *widen_block(measurer *m, tenmap_dtype dtype, const unsigned char *src,
                               size_t count) {
    if (dtype == sum_dtype(dtype) && !TMI_BIG_ENDIAN)
        return src;
    tmi_convert_file((tmi_packed){sum_dtype(dtype), 0}, m->values, (tmi_packed){dtype, 0}, src,
                     count, TENMAP_CONVERT_NO_STREAM);
    return m->values;
}

/* Counts the subnormals of F16 before it is widened: in F32 they are normal. */
static uint64_t count_f16_subnormals(const unsigned char *src, size_t count) {
    uint64_t subnormals = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = src[2 * i] | (uint32_t)(src[2 * i + 1] & 0x7f) << 8;
        subnormals += magnitude - 1 < 0x03ff;
    }
    return subnormals;
}

/* Adds F32 or F64 in host order, with the kernel for F32 if there is one. */
static void add_values(tmi_lanes *lanes, const unsigned char *values, size_t count, bool is_f64) {
    tmi_moments *kernel = is_f64 || TMI_BIG_ENDIAN ? NULL : tmi_cpu_kernels()->moments[TENMAP_F32];
    size_t whole = kernel ? count - count % TMI_LANES : 0;
    tmi_lanes begun = *lanes;
    if (whole && !kernel(lanes, values, whole, NULL)) {
        whole = 0;
        *lanes = begun;
    }
    if (is_f64)
        tmi_lanes_f64(lanes, values, 0, count);
    else
        tmi_lanes_f32(lanes, values + whole * sizeof(float), whole, count - whole);
}

/* Copies F64 into m->values, where they may be already, each times a power of two. */
static void scale_block(measurer *m, const unsigned char *values, size_t count, int scale) {
    double factor = tmi_mean_squares_factor(scale);
    for (size_t i = 0; i < count; i++) {
        double x;
        memcpy(&x, values + i * sizeof x, sizeof x);
        m->values[i] = x * factor;
    }
}

/*
 * Mean and squares of a block that has been summed, with this minimum and maximum: from the sums if
 * these are precise, otherwise by summing once more.
 */
static tmi_mean_squares mean_squares_of_block(measurer *m, tenmap_dtype dtype,
                                              const unsigned char *src, size_t count,
                                              tmi_lanes *lanes, const moments *summed) {
    bool is_f64 = sum_dtype(dtype) == TENMAP_F64;
    int scale = is_f64 ? tmi_mean_squares_scale(summed->min, summed->max) : 0;
    tmi_mean_squares spread;
    if (summed->min == summed->max)
        return tmi_mean_squares_same(summed->min, lanes->finite, scale);
    if (scale == 0 && tmi_mean_squares_of_lanes(&spread, lanes, 0))
        return spread;
    const unsigned char *values = widen_block(m, dtype, src, count);
    if (scale) {
        scale_block(m, values, count, scale);
        values = (const unsigned char *)m->values;
        tmi_lanes_begin(lanes, true);
        add_values(lanes, values, count, is_f64);
        if (tmi_mean_squares_of_lanes(&spread, lanes, scale))
            return spread;
    }
    tmi_lanes_begin(lanes, false);
    lanes->shift = spread.mean;
    add_values(lanes, values, count, is_f64);
    (void)tmi_mean_squares_of_lanes(&spread, lanes, scale);
    return spread;
}

static moments moments_of_lanes(const tmi_lanes *lanes, bool is_f64) {
    moments m = no_moments();
    m.zeros = lanes->zeros;
    m.subnormals = lanes->subnormals;
    m.nans = lanes->nans;
    m.infinities = lanes->infinities;
    if (lanes->finite) {
        m.min = is_f64 ? tmi_key_f64(lanes->least) : tmi_key_f32(lanes->least);
        m.max = is_f64 ? tmi_key_f64(lanes->greatest) : tmi_key_f32(lanes->greatest);
    }
    return m;
}

/* Measures a block. If `counted` is not NULL, its codes are counted too. */
static moments measure_block(measurer *m, tenmap_dtype dtype, const unsigned char *src,
                             size_t count, uint32_t *counted) {
    tmi_moments *kernel = tmi_cpu_kernels()->moments[dtype];
    size_t width = tmi_dtype_width(dtype), whole = count - count % TMI_LANES;
    bool is_f64 = sum_dtype(dtype) == TENMAP_F64;
    tmi_lanes lanes;
    tmi_lanes_begin(&lanes, tmi_dtypes[dtype].bits > 16);
    if (!kernel || TMI_BIG_ENDIAN || whole == 0)
        whole = 0;
    else if (!kernel(&lanes, src, whole, counted)) {
        whole = 0;
        tmi_lanes_begin(&lanes, tmi_dtypes[dtype].bits > 16);
    }
    const unsigned char *rest = src + whole * width;
    if (counted)
        tmi_count_words(counted, rest, count - whole);
    if (is_f64)
        tmi_lanes_f64(&lanes, widen_block(m, dtype, rest, count - whole), whole, count - whole);
    else
        tmi_lanes_f32(&lanes, widen_block(m, dtype, rest, count - whole), whole, count - whole);
    if (dtype == TENMAP_F16)
        lanes.subnormals += count_f16_subnormals(rest, count - whole);
    moments part = moments_of_lanes(&lanes, is_f64);
    if (lanes.finite)
        part.spread = mean_squares_of_block(m, dtype, src, count, &lanes, &part);
    return part;
}

/* Histograms. */

/*
 * Finds the bins of a block's elements first, then counts them. Values outside have a bin of their
 * own.
 */
static void bin_block(measurer *m, tenmap_dtype dtype, const unsigned char *src, size_t count,
                      const tmi_bin_range *range) {
    const unsigned char *values = widen_block(m, dtype, src, count);
    size_t part = (size_t)range->bins + 1, i = 0;
    tmi_find_bins(range, m->places, values, count, sum_dtype(dtype) == TENMAP_F64);
    for (; i + BIN_PARTS <= count; i += BIN_PARTS)
        for (size_t k = 0; k < BIN_PARTS; k++)
            m->bins[k * part + m->places[i + k]]++;
    for (; i < count; i++)
        m->bins[m->places[i]]++;
}

/*
 * Bins a unit of 16-bit elements after all of them are counted: 256 codes at a time, as if they
 * were a block.
 */
static void bin_counted(measurer *m, tenmap_dtype dtype, const tmi_bin_range *range) {
    unsigned char codes[256 * 2];
    uint32_t times[256];
    for (unsigned row = 0; row < TMI_WORD_CODES / 256; row++) {
        if (!tmi_move_counts(m->counted + (size_t)256 * row, times))
            continue;
        for (size_t i = 0; i < 256; i++) { /* in file order */
            codes[2 * i] = (unsigned char)i;
            codes[2 * i + 1] = (unsigned char)row;
        }
        tmi_find_bins(range, m->places, widen_block(m, dtype, codes, 256), 256, false);
        for (unsigned i = 0; i < 256; i++)
            m->bins[m->places[i]] += times[i];
    }
}

/* Elements of at most 8 bits, by their codes. */

/*
 * The number that a code stands for. Returns false if it is not finite; *is_nan says which kind it
 * is.
 */
static bool code_value(tenmap_dtype dtype, unsigned code, double *value, bool *is_nan) {
    uint64_t bits = tmi_scalar_one(TENMAP_F64, dtype, code, 0);
    memcpy(value, &bits, sizeof *value);
    bits &= INT64_MAX;
    *is_nan = bits > UINT64_C(0x7ff0000000000000);
    return bits < UINT64_C(0x7ff0000000000000);
}

static moments moments_of_codes(tenmap_dtype dtype, const uint64_t codes[256]) {
    moments m = no_moments();
    for (unsigned code = 0; code < 256; code++) {
        double value;
        bool is_nan;
        uint64_t times = codes[code];
        if (times == 0)
            continue;
        if (!code_value(dtype, code, &value, &is_nan)) {
            *(is_nan ? &m.nans : &m.infinities) += times;
            continue;
        }
        moments same = {
            .min = value, .max = value, .spread = tmi_mean_squares_same(value, times, 0)};
        same.zeros = value == 0 ? times : 0;
        same.subnormals = tmi_scalar_is_subnormal(dtype, code) ? times : 0;
        merge_moments(&m, &same);
    }
    return m;
}

static void bin_codes(measurer *m, tenmap_dtype dtype, const uint64_t codes[256],
                      const tmi_bin_range *range) {
    for (unsigned code = 0; code < 256; code++) {
        double value;
        bool is_nan;
        if (codes[code] == 0)
            continue;
        bool finite = code_value(dtype, code, &value, &is_nan);
        m->bins[tmi_bin_or_outside(range, finite ? value : range->low, finite)] +=
            (uint32_t)codes[code];
    }
}

/* Units. */

/* A C64 counts as two elements that are measured. */
static uint64_t halves_of(const tenmap_tensor *t) {
    return t->dtype == TENMAP_C64 ? 2 : 1;
}

static uint64_t elements_of(const tenmap_tensor *t) {
    return halves_of(t) * t->nelems;
}

/* The bytes of files that such elements account for. */
static uint64_t measured_bytes(const tenmap_tensor *t, uint64_t first, uint64_t count) {
    return tmi_stored_bytes(t, t->dtype, first / halves_of(t), count / halves_of(t));
}

/* The stored dtype of what elements_of counts: half of a C64 is an F32. */
static tenmap_dtype stored_dtype(const tenmap_tensor *t) {
    return t->dtype == TENMAP_C64 ? TENMAP_F32 : t->dtype;
}

/* The dtype that is measured: block dtypes are unpacked to F32. */
static tenmap_dtype dtype_of(const tenmap_tensor *t) {
    return tmi_dtype_blocks(t->dtype) ? TENMAP_F32 : stored_dtype(t);
}

/* Unpacks whole blocks to F32 in file order, in which everything is measured. */
static const unsigned char *unpack_block(measurer *m, tenmap_dtype dtype, const unsigned char *at,
                                         size_t count) {
    tmi_convert_file((tmi_packed){TENMAP_F32, 0}, m->unpacked, (tmi_packed){dtype, 0}, at, count,
                     TENMAP_CONVERT_NO_STREAM);
    unsigned char *bytes = (unsigned char *)m->unpacked;
    for (size_t i = 0; TMI_BIG_ENDIAN && i < 4 * count; i += 4) {
        unsigned char first = bytes[i], second = bytes[i + 1];
        bytes[i] = bytes[i + 3];
        bytes[i + 1] = bytes[i + 2];
        bytes[i + 2] = second;
        bytes[i + 3] = first;
    }
    return bytes;
}

/* The range of a tensor's histogram; false if no value can be in it. */
static bool choose_range(const measurer *m, const measure_unit *unit, tmi_bin_range *range) {
    const measure_job *job = m->job;
    bool own = !(job->options.low < job->options.high);
    const tenmap_stats *stats = &job->out[unit->tensor];
    if (own && stats->nans + stats->infinities == stats->count)
        return false;
    range->low = own ? stats->min : job->options.low;
    range->high = own ? stats->max : job->options.high;
    range->bins = job->options.bins;
    tmi_make_range(range, m->edges, m->edge_keys);
    return true;
}

/* Measures, bins or counts `count` elements at `bytes`, where a block begins. */
static void measure_bytes(measurer *m, measure_unit *unit, const unsigned char *bytes, size_t count,
                          uint64_t codes[256], const tmi_bin_range *range) {
    const tenmap_tensor *t = m->job->tensors[unit->tensor];
    tenmap_dtype dtype = dtype_of(t), stored = stored_dtype(t);
    if (tmi_dtypes[dtype].bits <= 8) {
        tmi_count_codes(dtype, codes, m->counted, bytes, count);
        return;
    }
    for (size_t i = 0; i < count; i += TMI_MEASURE_BLOCK) {
        size_t block = count - i < TMI_MEASURE_BLOCK ? count - i : TMI_MEASURE_BLOCK;
        const unsigned char *at = bytes + tmi_bytes_of(stored, i);
        if (stored != dtype)
            at = unpack_block(m, stored, at, block);
        if (!m->job->binning || m->job->both) {
            moments part = measure_block(m, dtype, at, block, m->counted);
            merge_moments(&unit->result, &part);
        } else if (m->counted) {
            tmi_count_words(m->counted, at, block);
        }
        if (m->bins && !m->counted)
            bin_block(m, dtype, at, block, range);
    }
}

/*
 * Points the thread's window at bytes [begin, end) of a shard. Its buffer is allocated on first
 * use.
 */
static tenmap_status open_window(measurer *m, const tmi_shard *shard, uint64_t begin, uint64_t end,
                                 tenmap_error *error) {
    size_t size = (size_t)WINDOW_BLOCKS * TMI_MEASURE_BLOCK * 8;
    if (!m->buffer.bytes && !tmi_block_alloc_dirty(&m->buffer, size))
        return tmi_fail_memory(error, size, "reading");
    m->window = (tmi_window){.bytes = &shard->bytes,
                             .direct_fd = -1,
                             .buffer = m->buffer.bytes,
                             .size = size,
                             .at = begin,
                             .end = begin,
                             .last = end};
    return TENMAP_OK;
}

/*
 * Reads a mapped unit in one go if the page cache lacks some of it. Otherwise the pages are left to
 * page faults, which bring in many pages at once; asking for mapped pages again takes longer than
 * measuring them.
 */
static tenmap_status populate_unit(tmi_span span, const tenmap_tensor *t, tenmap_error *error) {
    uint64_t cached;
    if (tmi_file_cached(&span.shard->bytes.file, span.begin, span.end, &cached) == 0 &&
        cached == span.end - span.begin)
        return TENMAP_OK;
    return tmi_populate_span(span, t, error);
}

/*
 * Produces the values of a unit all at once: it has many rows, and some tensors are stored
 * transposed. Units of elements of 8 bytes are produced in two steps.
 */
static tenmap_status measure_computed_unit(measurer *m, measure_unit *unit, uint64_t codes[256],
                                           const tmi_bin_range *range, tenmap_error *error) {
    const tenmap_tensor *t = m->job->tensors[unit->tensor];
    size_t size = UNIT_ELEMENTS * sizeof(float), width = tmi_dtype_width(stored_dtype(t));
    uint64_t step = width > sizeof(float) ? UNIT_ELEMENTS / 2 : UNIT_ELEMENTS;
    tenmap_status status = TENMAP_OK;
    if (!m->computed.bytes && !tmi_block_alloc_dirty(&m->computed, size))
        return tmi_fail_memory(error, size, "measuring");
    for (uint64_t i = 0; status == TENMAP_OK && i < unit->count; i += step) {
        uint64_t count = unit->count - i < step ? unit->count - i : step;
        tmi_values_wanted wanted = {.tensor = t,
                                    .first = (unit->first + i) / halves_of(t),
                                    .count = count / halves_of(t),
                                    .flags = TENMAP_CONVERT_NO_STREAM,
                                    .dst = m->computed.bytes,
                                    .dst_bytes = size};
        status = tmi_values_read(&m->source, &wanted, error);
        if (status != TENMAP_OK)
            return status;
        tmi_to_file_order(m->computed.bytes, width, (size_t)count);
        measure_bytes(m, unit, m->computed.bytes, (size_t)count, codes, range);
    }
    return status;
}

/* Walks all elements of a unit, in the mapping or through the window. */
static tenmap_status measure_elements(measurer *m, measure_unit *unit, uint64_t codes[256],
                                      const tmi_bin_range *range, tenmap_error *error) {
    const tenmap_tensor *t = m->job->tensors[unit->tensor];
    const tmi_shard *shard = tmi_shard_of(t);
    tenmap_dtype stored = stored_dtype(t);
    uint64_t begin = tmi_bytes_of(stored, unit->first), size = tmi_bytes_of(stored, unit->count);
    uint64_t step = (uint64_t)WINDOW_BLOCKS * TMI_MEASURE_BLOCK;
    if (tmi_computed_of(t))
        return measure_computed_unit(m, unit, codes, range, error);
    if (t->data) {
        tmi_span span = {shard, t->file_offset + begin, t->file_offset + begin + size};
        tenmap_status status = populate_unit(span, t, error);
        if (status == TENMAP_OK)
            measure_bytes(m, unit, (const unsigned char *)t->data + begin, (size_t)unit->count,
                          codes, range);
        return status;
    }
    begin += t->file_offset;
    tenmap_status status = open_window(m, shard, begin, begin + size, error);
    for (uint64_t i = 0; status == TENMAP_OK && i < unit->count; i += step) {
        uint64_t count = unit->count - i < step ? unit->count - i : step;
        const unsigned char *bytes;
        status = tmi_window_bytes(&m->window, begin + tmi_bytes_of(stored, i),
                                  (size_t)tmi_bytes_of(stored, count), t, &bytes, error);
        if (status == TENMAP_OK)
            measure_bytes(m, unit, bytes, (size_t)count, codes, range);
    }
    return status;
}

/*
 * Decides whether the unit's elements are counted by 16-bit codes. Those in bytes are counted two
 * bytes at a time.
 */
static tenmap_status choose_counting(measurer *m, const measure_unit *unit, tenmap_error *error) {
    unsigned bits = tmi_dtypes[dtype_of(m->job->tensors[unit->tensor])].bits;
    size_t size = TMI_WORD_CODES * sizeof *m->counted;
    bool counts = bits == 16 ? m->bins != NULL : bits == 8 || bits == 4;
    m->counted = NULL;
    if (!counts || unit->count < LEAST_COUNTED)
        return TENMAP_OK;
    if (!m->counts.bytes && !tmi_block_alloc(&m->counts, size))
        return tmi_fail_memory(error, size, "counting");
    m->counted = m->counts.bytes;
    return TENMAP_OK;
}

static void add_bins(measurer *m, size_t tensor) {
    measure_job *job = m->job;
    size_t bins = job->options.bins;
    uint64_t *total = job->options.histogram + tensor * bins;
    pthread_mutex_lock(&job->lock);
    for (size_t k = 0; k < BIN_PARTS; k++)
        for (size_t b = 0; b < bins; b++)
            total[b] += m->bins[k * (bins + 1) + b];
    pthread_mutex_unlock(&job->lock);
}

static tenmap_status measure_one_unit(measurer *m, measure_unit *unit, tenmap_error *error) {
    const tenmap_tensor *t = m->job->tensors[unit->tensor];
    tenmap_dtype dtype = dtype_of(t);
    uint64_t codes[256] = {0};
    tmi_bin_range range = {0};
    bool binning = m->bins;
    if (binning) {
        memset(m->bins, 0, BIN_PARTS * ((size_t)m->job->options.bins + 1) * sizeof *m->bins);
        if (!choose_range(m, unit, &range))
            return TENMAP_OK;
    }
    tenmap_status status = choose_counting(m, unit, error);
    if (status == TENMAP_OK)
        status = measure_elements(m, unit, codes, &range, error);
    if (status != TENMAP_OK)
        return status;
    if (tmi_dtypes[dtype].bits <= 8) {
        tmi_end_codes(dtype, codes, m->counted);
        if (!m->job->binning || m->job->both)
            unit->result = moments_of_codes(dtype, codes);
        if (binning)
            bin_codes(m, dtype, codes, &range);
    } else if (m->counted) {
        bin_counted(m, dtype, &range);
    }
    if (binning)
        add_bins(m, unit->tensor);
    return TENMAP_OK;
}

/* The job: runs the units on threads, and collects their results. */

static size_t bins_per_thread(const measure_job *job) {
    return job->binning ? (size_t)job->options.bins + 1 : 0; /* one more for values outside */
}

/* The bytes of a bin in a thread: its counters, and its edge as F64 and as a key of F32. */
enum { BIN_BYTES = BIN_PARTS * sizeof(uint32_t) + sizeof(double) + sizeof(int32_t) };

static tenmap_status run_measure_unit(void *ctx, void *state, size_t number, tenmap_error *error) {
    measure_job *job = ctx;
    measurer *m = state;
    measure_unit *unit = &job->units[number];
    m->job = job;
    size_t bins = bins_per_thread(job);
    m->edges = (double *)(void *)(m + 1);
    m->bins = bins ? (uint32_t *)(void *)(m->edges + bins) : NULL;
    m->edge_keys = (int32_t *)(void *)((uint32_t *)(void *)(m->edges + bins) + BIN_PARTS * bins);
    tenmap_status status = measure_one_unit(m, unit, error);
    if (status != TENMAP_OK) {
        error->index = unit->tensor;
        return status;
    }
    const tenmap_tensor *t = job->tensors[unit->tensor];
    tmi_job_add(&job->run, measured_bytes(t, unit->first, unit->count));
    return TENMAP_OK;
}

static void free_measurer(void *state) {
    measurer *m = state;
    tmi_block_free(&m->buffer);
    tmi_block_free(&m->computed);
    tmi_block_free(&m->counts);
    tmi_source_free(m->source);
}

/* Stores the results of the next tensor, all of whose units are merged. */
static void finish_tensor(measure_job *job) {
    const moments *m = &job->sum;
    tenmap_stats *s = &job->out[job->finished];
    *s = (tenmap_stats){.count = elements_of(job->tensors[job->finished]),
                        .zeros = m->zeros,
                        .subnormals = m->subnormals,
                        .nans = m->nans,
                        .infinities = m->infinities,
                        .min = m->min,
                        .max = m->max,
                        .mean = quiet_nan(),
                        .std = quiet_nan()};
    if (m->spread.count)
        tmi_mean_squares_results(&m->spread, &s->mean, &s->std, &s->norm);
    job->finished++;
    job->sum = no_moments();
}

static void finish_units(measure_job *job) {
    for (size_t i = 0; i < job->unit_count; i++) {
        while (job->finished < job->units[i].tensor)
            finish_tensor(job);
        merge_moments(&job->sum, &job->units[i].result);
    }
}

/* Plans the next units of this pass; none if there are no more. */
static void plan_units(measure_job *job) {
    for (job->unit_count = 0; job->unit_count < job->most_units && job->planned < job->count;) {
        uint64_t rest = elements_of(job->tensors[job->planned]) - job->first;
        uint64_t count = rest < UNIT_ELEMENTS ? rest : UNIT_ELEMENTS;
        if (count)
            job->units[job->unit_count++] =
                (measure_unit){job->planned, job->first, count, no_moments()};
        job->first += count;
        if (count == rest) {
            job->planned++;
            job->first = 0;
        }
    }
}

static void run_pass(measure_job *job, bool binning, bool both) {
    job->binning = binning;
    job->both = both;
    job->run.state_bytes = sizeof(measurer) + bins_per_thread(job) * BIN_BYTES;
    job->planned = job->finished = 0;
    job->first = 0;
    job->sum = no_moments();
    bool settles = !binning || both;
    do {
        plan_units(job);
        tmi_job_run(&job->run, job->unit_count);
        if (settles && job->run.status == TENMAP_OK)
            finish_units(job);
    } while (job->planned < job->count && job->run.status == TENMAP_OK);
    while (settles && job->run.status == TENMAP_OK && job->finished < job->count)
        finish_tensor(job);
}

static tenmap_status plan_measuring(measure_job *job, tenmap_error *error) {
    uint64_t units = 0;
    for (size_t i = 0; i < job->count; i++) {
        const tenmap_tensor *t = job->tensors[i];
        tenmap_status status = TENMAP_OK;
        if (!t) {
            tmi_fail(error, TENMAP_ERR_ARGUMENT,
                     "tensor %llu is NULL (was no tensor of that name found?)", (ull)i);
            status = TENMAP_ERR_ARGUMENT;
        } else if (t->dtype == TENMAP_OPAQUE)
            status = TMI_FAIL_TENSOR(error, TENMAP_ERR_UNSUPPORTED, t,
                                     "its dtype %s is unknown, so its values cannot be measured",
                                     tmi_stored_dtype(t).text);
        if (status != TENMAP_OK) {
            if (error)
                error->index = i;
            return status;
        }
        units += elements_of(t) / UNIT_ELEMENTS + 1;
        job->run.total += measured_bytes(t, 0, elements_of(t));
    }
    job->most_units = units < MOST_UNITS ? (size_t)units : MOST_UNITS;
    if (!tmi_block_alloc(&job->unit_block, job->most_units * sizeof *job->units))
        return tmi_fail_memory(error, job->most_units * sizeof *job->units,
                               "the parts of a measurement");
    job->units = job->unit_block.bytes;
    return TENMAP_OK;
}

static tenmap_status run_measuring(measure_job *job, tenmap_error *error) {
    const tenmap_stats_options *options = &job->options;
    bool own_range = options->histogram && !(options->low < options->high);
    int failed = pthread_mutex_init(&job->lock, NULL);
    if (failed)
        return tmi_fail_os(error, failed, "cannot create a lock for measuring");
    job->run.threads = tmi_job_threads(options->threads, MOST_MEASURE_THREADS);
    job->run.unit = run_measure_unit;
    job->run.ctx = job;
    job->run.release = free_measurer;
    job->run.what = "measuring";
    job->run.progress = options->progress;
    job->run.progress_ctx = options->ctx;
    job->run.cancelled = "measuring was cancelled by its progress function";
    if (options->histogram)
        memset(options->histogram, 0, job->count * options->bins * sizeof *options->histogram);
    if (own_range)
        job->run.total *= 2;
    run_pass(job, options->histogram && !own_range, true);
    if (own_range)
        run_pass(job, true, false);
    pthread_mutex_destroy(&job->lock);
    return tmi_job_end(&job->run, error);
}

tenmap_status tenmap_measure(const tenmap_tensor *const *tensors, size_t n,
                             const tenmap_stats_options *options, tenmap_stats *out,
                             tenmap_error *error) {
    measure_job job = {.tensors = tensors, .count = n, .out = out};
    tenmap_status status = tmi_init_stats_options(options, &job.options, error);
    if (status != TENMAP_OK)
        return status;
    if (n && (!tensors || !out))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT, "the list of %s is NULL",
                        tensors ? "results" : "tensors");
    uint64_t bins = job.options.bins; /* a thread has one more, and other state */
    if (bins && (n > SIZE_MAX / sizeof(uint64_t) / bins || bins > SIZE_MAX / 2 / BIN_BYTES))
        return tmi_fail(error, TENMAP_ERR_ARGUMENT,
                        "%llu histograms of %u bins do not fit into memory", (ull)n,
                        (unsigned)job.options.bins);
    status = plan_measuring(&job, error);
    if (status == TENMAP_OK)
        status = run_measuring(&job, error);
    tmi_block_free(&job.unit_block);
    return status;
}

#endif
