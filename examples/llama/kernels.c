/*
 * The arithmetic. An engine spends its time on products of rows. They are written once for each
 * instruction set and element type, in the same shape: two sums of eight lanes for each vector, so
 * that all versions add the same products in the same order, and four vectors share one pass over
 * the row.
 */
#include "llama.h"

#include <math.h>
#include <string.h>

/* GCC for Windows moves 32-byte vectors as if the stack were aligned for them, but it is not. */
#if defined(__x86_64__) && (!defined(_WIN32) || defined(__clang__))
#define LLAMA_AVX2 1
#include <immintrin.h>
#elif defined(__aarch64__)
#define LLAMA_NEON 1
#include <arm_neon.h>
#endif

static float from_bf16(const void *element) {
    uint16_t half;
    float value;
    memcpy(&half, element, sizeof half);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/*
 * Exact: subnormals are multiples of 2^-24, normal numbers get F32's exponent bias, infinities and
 * NaN stay.
 */
static float from_f16(const void *element) {
    uint16_t half;
    float value;
    memcpy(&half, element, sizeof half);
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest < 0x400) {
        value = (float)rest * 0x1p-24f;
        return sign ? -value : value;
    }
    uint32_t bits = sign | ((rest << 13) + (rest < 0x7c00 ? 112u << 23 : 224u << 23));
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_f32(const void *element) {
    float value;
    memcpy(&value, element, sizeof value);
    return value;
}

static size_t row_bytes(const llama_matrix *m) {
    return m->columns * (m->dtype == TENMAP_F32 ? 4 : 2);
}

void widen(float *y, const llama_matrix *m, size_t row) {
    const char *from = (const char *)m->data + row * row_bytes(m);
    for (size_t i = 0; i < m->columns; i++)
        y[i] = m->dtype == TENMAP_BF16  ? from_bf16(from + 2 * i)
               : m->dtype == TENMAP_F16 ? from_f16(from + 2 * i)
                                        : from_f32(from + 4 * i);
}

/*
 * y[t * y_stride] = the product of a row of n elements with x[t * n ...], for t below count. The
 * result for one t does not depend on the others.
 */
typedef void row_product(float *y, size_t y_stride, const void *row, const float *x, size_t n,
                         size_t count);
enum { LANES = 8, SUMS = 2, STEP = LANES * SUMS, TOGETHER = 4 };

/*
 * Adds the rest of a row after the last whole step to the sum of the lanes, in the same way in all
 * versions.
 */
#define DEFINE_REST(name, element_bytes, from)                                                     \
    static float rest_##name(const float *lanes, const char *row, const float *x, size_t i,        \
                             size_t n) {                                                           \
        float sum = 0;                                                                             \
        for (size_t k = 0; k < LANES; k++)                                                         \
            sum += lanes[k];                                                                       \
        for (; i < n; i++)                                                                         \
            sum += from(row + i * (element_bytes)) * x[i];                                         \
        return sum;                                                                                \
    }
DEFINE_REST(bf16, 2, from_bf16)
DEFINE_REST(f16, 2, from_f16)
DEFINE_REST(f32, 4, from_f32)

/*
 * Takes the vectors four at a time, then one by one. The last argument of `some` is their number, a
 * constant.
 */
#define DEFINE_PRODUCT(name, some)                                                                 \
    static void name(float *y, size_t y_stride, const void *row, const float *x, size_t n,         \
                     size_t count) {                                                               \
        size_t t = 0;                                                                              \
        for (; t + TOGETHER <= count; t += TOGETHER)                                               \
            some(y + t * y_stride, y_stride, row, x + t * n, n, TOGETHER);                         \
        for (; t < count; t++)                                                                     \
            some(y + t * y_stride, y_stride, row, x + t * n, n, 1);                                \
    }

#define DEFINE_PORTABLE(name, element_bytes)                                                       \
    static inline void some_##name(float *y, size_t y_stride, const char *row, const float *x,     \
                                   size_t n, size_t count) {                                       \
        for (size_t t = 0; t < count; t++, x += n) {                                               \
            float sums[STEP] = {0};                                                                \
            size_t i = 0;                                                                          \
            for (; i + STEP <= n; i += STEP)                                                       \
                for (size_t k = 0; k < STEP; k++)                                                  \
                    sums[k] += from_##name(row + (i + k) * (element_bytes)) * x[i + k];            \
            for (size_t k = 0; k < LANES; k++)                                                     \
                sums[k] += sums[k + LANES];                                                        \
            y[t * y_stride] = rest_##name(sums, row, x, i, n);                                     \
        }                                                                                          \
    }                                                                                              \
    DEFINE_PRODUCT(portable_##name, some_##name)
DEFINE_PORTABLE(bf16, 2)
DEFINE_PORTABLE(f16, 2)
DEFINE_PORTABLE(f32, 4)

#ifdef LLAMA_AVX2
#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define ALWAYS AVX2 __attribute__((always_inline)) inline

static ALWAYS __m256 lanes_bf16(const char *p) {
    __m128i raw = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(raw), 16));
}
static ALWAYS __m256 lanes_f16(const char *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static ALWAYS __m256 lanes_f32(const char *p) {
    return _mm256_loadu_ps((const float *)(const void *)p);
}

#define DEFINE_AVX2(name, element_bytes)                                                           \
    static ALWAYS void fast_##name(float *y, size_t y_stride, const char *row, const float *x,     \
                                   size_t n, size_t count) {                                       \
        __m256 a[TOGETHER], b[TOGETHER];                                                           \
        size_t i = 0;                                                                              \
        for (size_t t = 0; t < count; t++)                                                         \
            a[t] = b[t] = _mm256_setzero_ps();                                                     \
        for (; i + STEP <= n; i += STEP) {                                                         \
            __m256 low = lanes_##name(row + i * (element_bytes));                                  \
            __m256 high = lanes_##name(row + (i + LANES) * (element_bytes));                       \
            for (size_t t = 0; t < count; t++) {                                                   \
                a[t] = _mm256_fmadd_ps(low, _mm256_loadu_ps(x + t * n + i), a[t]);                 \
                b[t] = _mm256_fmadd_ps(high, _mm256_loadu_ps(x + t * n + i + LANES), b[t]);        \
            }                                                                                      \
        }                                                                                          \
        for (size_t t = 0; t < count; t++) {                                                       \
            float lanes[LANES];                                                                    \
            _mm256_storeu_ps(lanes, _mm256_add_ps(a[t], b[t]));                                    \
            y[t * y_stride] = rest_##name(lanes, row, x + t * n, i, n);                            \
        }                                                                                          \
    }                                                                                              \
    AVX2 DEFINE_PRODUCT(avx2_##name, fast_##name)
DEFINE_AVX2(bf16, 2)
DEFINE_AVX2(f16, 2)
DEFINE_AVX2(f32, 4)

/* F16C is older than AVX2: every processor with the latter has it. */
static int has_fast(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#define FAST(name) avx2_##name
#endif

#ifdef LLAMA_NEON
static inline float32x4_t lanes_bf16(const char *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)(const void *)p), 16));
}
static inline float32x4_t lanes_f16(const char *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)(const void *)p)));
}
static inline float32x4_t lanes_f32(const char *p) {
    return vld1q_f32((const float *)(const void *)p);
}

#define DEFINE_NEON(name, element_bytes)                                                           \
    static inline void fast_##name(float *y, size_t y_stride, const char *row, const float *x,     \
                                   size_t n, size_t count) {                                       \
        float32x4_t s[TOGETHER][4];                                                                \
        size_t i = 0;                                                                              \
        for (size_t t = 0; t < count; t++)                                                         \
            for (size_t k = 0; k < 4; k++)                                                         \
                s[t][k] = vdupq_n_f32(0);                                                          \
        for (; i + STEP <= n; i += STEP)                                                           \
            for (size_t k = 0; k < 4; k++) {                                                       \
                float32x4_t w = lanes_##name(row + (i + 4 * k) * (element_bytes));                 \
                for (size_t t = 0; t < count; t++)                                                 \
                    s[t][k] = vfmaq_f32(s[t][k], w, vld1q_f32(x + t * n + i + 4 * k));             \
            }                                                                                      \
        for (size_t t = 0; t < count; t++) {                                                       \
            float lanes[LANES];                                                                    \
            vst1q_f32(lanes, vaddq_f32(s[t][0], s[t][2]));                                         \
            vst1q_f32(lanes + 4, vaddq_f32(s[t][1], s[t][3]));                                     \
            y[t * y_stride] = rest_##name(lanes, row, x + t * n, i, n);                            \
        }                                                                                          \
    }                                                                                              \
    DEFINE_PRODUCT(neon_##name, fast_##name)
DEFINE_NEON(bf16, 2)
DEFINE_NEON(f16, 2)
DEFINE_NEON(f32, 4)

static int has_fast(void) {
    return 1;
}
#define FAST(name) neon_##name
#endif

#if !defined(LLAMA_AVX2) && !defined(LLAMA_NEON)
static int has_fast(void) {
    return 0;
}
#define FAST(name) portable_##name
#endif

static row_product *row_product_for(tenmap_dtype dtype) {
    int fast = has_fast();
    if (dtype == TENMAP_BF16)
        return fast ? FAST(bf16) : portable_bf16;
    if (dtype == TENMAP_F16)
        return fast ? FAST(f16) : portable_f16;
    return fast ? FAST(f32) : portable_f32;
}

/*
 * Several products of the same count, cut into blocks of rows, which the threads take one after the
 * other.
 */
typedef struct products {
    const product *list;
    size_t count;
} products;

static size_t rows_of_block(const llama_matrix *m) {
    enum { BYTES = 1 << 18 };
    size_t rows = BYTES / row_bytes(m);
    return rows ? rows : 1;
}

static size_t blocks_of(const llama_matrix *m) {
    return (m->rows + rows_of_block(m) - 1) / rows_of_block(m);
}

static void multiply_block(void *ctx, size_t block) {
    const products *all = ctx;
    const product *p = all->list;
    for (; block >= blocks_of(p->matrix); p++)
        block -= blocks_of(p->matrix);
    const llama_matrix *m = p->matrix;
    const float *bias = m->bias;
    row_product *dot = row_product_for(m->dtype);
    size_t first = block * rows_of_block(m), last = first + rows_of_block(m);
    for (size_t r = first; r < m->rows && r < last; r++) {
        dot(p->y + r, m->rows, (const char *)m->data + r * row_bytes(m), p->x, m->columns,
            all->count);
        for (size_t t = 0; bias && t < all->count; t++)
            p->y[t * m->rows + r] += bias[r];
    }
}

void multiply(pool *threads, size_t count, size_t n, const product *list) {
    products all = {list, count};
    size_t blocks = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        blocks += blocks_of(list[i].matrix);
        size += list[i].matrix->rows * list[i].matrix->columns;
    }
    pool_run(threads, blocks, size * count, multiply_block, &all);
}

void rms_norm(float *y, const float *x, const float *gain, size_t n, size_t count, float epsilon) {
    for (size_t t = 0; t < count; t++, x += n, y += n) {
        float sum;
        row_product_for(TENMAP_F32)(&sum, 1, x, x, n, 1);
        float factor = 1 / sqrtf(sum / (float)n + epsilon);
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] * factor * gain[i];
    }
}

static void scale(float *x, float a, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] *= a;
}

void add_scaled(float *y, const float *x, float a, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* In one pass: when a new largest score appears, the sums so far are scaled down. */
void attend(float *out, const float *q, const cached_head *head) {
    row_product *dot = row_product_for(TENMAP_F32);
    float most = -INFINITY, sum = 0, score;
    size_t size = head->size;
    memset(out, 0, size * sizeof *out);
    for (size_t i = 0; i < head->positions; i++) {
        dot(&score, 1, head->keys + i * head->stride, q, size, 1);
        score /= sqrtf((float)size);
        if (score > most) {
            scale(out, expf(most - score), size);
            sum *= expf(most - score);
            most = score;
        }
        sum += expf(score - most);
        add_scaled(out, head->values + i * head->stride, expf(score - most), size);
    }
    scale(out, 1 / sum, size);
}

void swiglu(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++)
        gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

void rotate(float *x, const float *angles, size_t n, size_t count) {
    size_t half = n / 2;
    const float *cosines = angles, *sines = angles + half;
    for (size_t t = 0; t < count; t++, x += n)
        for (size_t i = 0; i < half; i++) {
            float a = x[i], b = x[i + half];
            x[i] = a * cosines[i] - b * sines[i];
            x[i + half] = b * cosines[i] + a * sines[i];
        }
}

/*
 * llama3 scaling slows down pairs that rotate slowly over the original positions, and keeps fast
 * ones.
 */
void fill_angles(float *angles, size_t position, const llama_config *c) {
    size_t half = c->head_size / 2;
    for (size_t i = 0; i < half; i++) {
        float f = 1 / powf(c->theta, (float)(2 * i) / (float)c->head_size);
        float turns = c->original_positions * f / 6.2831853f;
        if (c->rope == ROPE_LINEAR || (c->rope == ROPE_LLAMA3 && turns < c->low_factor)) {
            f /= c->factor;
        } else if (c->rope == ROPE_LLAMA3 && turns <= c->high_factor) {
            float smooth = (turns - c->low_factor) / (c->high_factor - c->low_factor);
            f = (1 - smooth) * f / c->factor + smooth * f;
        }
        angles[i] = cosf((float)position * f);
        angles[half + i] = sinf((float)position * f);
    }
}
