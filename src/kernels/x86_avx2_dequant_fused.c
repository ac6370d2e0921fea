/*
 * AVX2 kernels that dequantize weights with 4-bit codes in one pass: codes, scales and zero points
 * in, F32, BF16 or F16 out. The value of each of the 16 possible codes is computed and rounded once
 * for each group; the codes are then looked up in that table. The target has no fused multiply-add,
 * so no product and sum can be fused.
 */
#include "x86_avx2_dequant_fused.h"

#if TMI_AVX2

/* The values of a group's codes, in F32 and, if results have 16 bits, in that format too. */
typedef struct fused_table {
    __m256 low, high;
    fused_planes bytes;
} fused_table;

AVX2_INLINE fused_table group_table(const tmi_fused_run *run, size_t g, avx2_form form) {
    fused_table t;
    const bool zeros = run->zeros != NULL;
    const __m256 scale = _mm256_broadcast_ss(run->scales + g);
    const __m256 zero = zeros ? _mm256_broadcast_ss(run->zeros + g) : scale;
    const fused_scale by = {scale, zero, zeros, run->added};
    t.low = fused_apply_scale(_mm256_loadu_ps(run->table), by);
    t.high = fused_apply_scale(_mm256_loadu_ps(run->table + 8), by);
    if (form.as == TENMAP_F32)
        t.bytes.low = t.bytes.high = _mm256_setzero_si256();
    else
        t.bytes = fused_split_planes(t.low, t.high, form.as, form.saturate);
    return t;
}

/* Looks up the values of eight codes, one in each of the low eight bytes. */
AVX2_INLINE __m256 look_up_eight(__m128i codes, __m256 low, __m256 high) {
    __m256i index = _mm256_cvtepu8_epi32(codes);
    __m256 a = _mm256_permutevar8x32_ps(low, index), b = _mm256_permutevar8x32_ps(high, index);
    return _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}

/* Stores the values of sixteen codes, which are in order, one in each byte. */
AVX2_INLINE void put_16(unsigned char *d, __m128i codes, const fused_table *t, tenmap_dtype as,
                        bool stream) {
    if (as == TENMAP_F32) {
        __m256 a = look_up_eight(codes, t->low, t->high);
        __m256 b = look_up_eight(_mm_srli_si128(codes, 8), t->low, t->high);
        avx2_store(d, 0, _mm256_castps_si256(a), stream);
        avx2_store(d, 1, _mm256_castps_si256(b), stream);
        return;
    }
    __m128i low = _mm_shuffle_epi8(_mm256_castsi256_si128(t->bytes.low), codes);
    __m128i high = _mm_shuffle_epi8(_mm256_castsi256_si128(t->bytes.high), codes);
    avx2_store(d, 0, _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high)),
               stream);
}

/* Splits the low eight bytes into sixteen 4-bit codes, one per byte. */
AVX2_INLINE __m128i split_halves(__m128i both, bool high_first) {
    const __m128i nibble = _mm_set1_epi8(15);
    __m128i low = _mm_and_si128(both, nibble);
    __m128i high = _mm_and_si128(_mm_srli_epi16(both, 4), nibble);
    return high_first ? _mm_unpacklo_epi8(high, low) : _mm_unpacklo_epi8(low, high);
}

/* Splits 16 bytes into 32 codes, one per byte. */
AVX2_INLINE __m256i split_in_order(const unsigned char *s, bool high_first) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i both = _mm256_castsi128_si256(avx2_load_half(s, 0));
    both = _mm256_permute4x64_epi64(both, _MM_SHUFFLE(1, 1, 0, 0));
    __m256i low = _mm256_and_si256(both, nibble);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
    return high_first ? _mm256_unpacklo_epi8(high, low) : _mm256_unpacklo_epi8(low, high);
}

/*
 * The same with codes 8 to 15 and 16 to 23 swapped, so that unpacking the looked-up bytes within
 * 128-bit halves leaves them in order.
 */
AVX2_INLINE __m256i split_32_for_unpack(const unsigned char *s, bool high_first) {
    return _mm256_permute4x64_epi64(split_in_order(s, high_first), _MM_SHUFFLE(3, 1, 2, 0));
}

AVX2_INLINE void put_32(unsigned char *d, __m256i codes, const fused_planes *t, bool stream) {
    __m256i lows = _mm256_shuffle_epi8(t->low, codes), highs = _mm256_shuffle_epi8(t->high, codes);
    avx2_store(d, 0, _mm256_unpacklo_epi8(lows, highs), stream);
    avx2_store(d, 1, _mm256_unpackhi_epi8(lows, highs), stream);
}

AVX2_INLINE void prefetch_codes(const unsigned char *s, bool stream) {
    if (stream)
        _mm_prefetch((const char *)s + AVX2_PREFETCH, _MM_HINT_T0);
}

/* Writes the values of one group, whose codes begin at a whole byte. */
AVX2_INLINE void put_group(unsigned char *d, const unsigned char *s, size_t count,
                           const fused_table *t, avx2_form form, bool high_first) {
    const size_t width = form.as == TENMAP_F32 ? 4 : 2;
    size_t i = 0;
    prefetch_codes(s, form.stream);
    for (; width == 2 && i + 32 <= count; i += 32)
        put_32(d + i * 2, split_32_for_unpack(s + i / 2, high_first), &t->bytes, form.stream);
    for (; i + 16 <= count; i += 16) {
        __m128i both = _mm_loadl_epi64((const __m128i *)(const void *)(s + i / 2));
        put_16(d + i * width, split_halves(both, high_first), t, form.as, form.stream);
    }
    if (i < count) {
        unsigned char in[16] = {0}, out[64];
        memcpy(in, s + i / 2, (count - i + 1) / 2);
        put_16(out, split_halves(avx2_load_half(in, 0), high_first), t, form.as, false);
        memcpy(d + i * width, out, (count - i) * width);
    }
}

/* Groups [begin, end) of a run; the first begins at value `at`. */
typedef struct group_range {
    size_t begin, end, at;
} group_range;

/* Writes groups of a run; returns where the last ends. */
AVX2_INLINE size_t put_groups(unsigned char *d, const tmi_fused_run *run, group_range groups,
                              avx2_form form, bool high_first) {
    const size_t width = form.as == TENMAP_F32 ? 4 : 2;
    size_t at = groups.at;
    for (size_t g = groups.begin; g < groups.end; g++) {
        size_t n = g ? run->group : run->first;
        n = n < run->count - at ? n : run->count - at;
        fused_table t = group_table(run, g, form);
        put_group(d + at * width, run->codes + at / 2, n, &t, form, high_first);
        at += n;
    }
    return at;
}

/*
 * Kinds of codes whose BF16 values need only a few products with the scale. The other values are
 * halves, quarters and eighths of those, or have the opposite sign, as long as none is so small or
 * so large that it has fewer significant bits. The magnitudes of E2M1 derive from 4 and 6 this way;
 * those of codes minus 8 derive from 8, 6, 5 and 7. The products of a group are packed into one
 * 64-bit element; a kind with only two products has them in it twice.
 */

/* The 16 bits that a product is rounded to, in the low half of each lane; the high half is 0. */
AVX2_INLINE __m256i product_low(__m256 scales, float by) {
    return _mm256_srli_epi32(fused_round_bf16(_mm256_mul_ps(scales, _mm256_set1_ps(by)), false),
                             16);
}

/* Two products in each lane. */
AVX2_INLINE __m256i product_pair(__m256 scales, float low, float high) {
    __m256i upper = fused_round_bf16(_mm256_mul_ps(scales, _mm256_set1_ps(high)), false);
    return _mm256_blend_epi16(product_low(scales, low), upper, 0xaa);
}

/* Packs the products of groups of one kind; false if a scale is not suitable. */
AVX2_INLINE bool pack_products(uint64_t *products, const float *scales, size_t count,
                               tmi_code_kind kind) {
    const __m256i least = _mm256_set1_epi32(27 << 23), most = _mm256_set1_epi32(227 << 23);
    __m256i unsuited = _mm256_setzero_si256();
    for (size_t g = 0; g < count; g += 8) {
        float eight[8] = {0};
        const float *from = scales + g;
        if (count - g < 8)
            from = memcpy(eight, from, (count - g) * 4);
        __m256 scale = _mm256_loadu_ps(from);
        __m256i bits = _mm256_castps_si256(scale);
        __m256i small = _mm256_andnot_si256(_mm256_cmpeq_epi32(bits, _mm256_setzero_si256()),
                                            _mm256_cmpgt_epi32(least, bits));
        unsuited =
            _mm256_or_si256(unsuited, _mm256_or_si256(small, _mm256_cmpgt_epi32(bits, most)));
        bool e2m1 = kind == TMI_KIND_E2M1;
        __m256i a = e2m1 ? product_pair(scale, 4, 6) : product_pair(scale, 8, 6);
        __m256i b = e2m1 ? a : product_pair(scale, 5, 7);
        __m256i low = _mm256_unpacklo_epi32(a, b), high = _mm256_unpackhi_epi32(a, b);
        unsigned char *to = (unsigned char *)(products + g);
        avx2_store(to, 0, _mm256_permute2x128_si256(low, high, 0x20), false);
        avx2_store(to, 1, _mm256_permute2x128_si256(low, high, 0x31), false);
    }
    return _mm256_testz_si256(unsuited, unsuited);
}

/* Separates the bytes of 16-bit elements: those at even positions first, in each 128-bit half. */
AVX2_INLINE __m256i split_even_odd_bytes(__m256i values) {
    return _mm256_shuffle_epi8(values, _mm256_broadcastsi128_si256(_mm_setr_epi8(
                                           0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)));
}

/* The table of E2M1 in each half, from the products in that half. A scale of 0 gives zeros. */
AVX2_INLINE fused_planes e2m1_table(__m256i products) {
    const __m256i which = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(-1, -1, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3));
    const __m256i halved =
        _mm256_broadcastsi128_si256(_mm_setr_epi16(0, 0x180, 0x100, 0x100, 0x80, 0x80, 0, 0));
    const __m256i signs =
        _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0, (int)0x80808080, (int)0x80808080));
    __m256i values = _mm256_subs_epu16(_mm256_shuffle_epi8(products, which), halved);
    __m256i split = split_even_odd_bytes(values);
    fused_planes t = {_mm256_unpacklo_epi64(split, split),
                      _mm256_xor_si256(_mm256_unpackhi_epi64(split, split), signs)};
    return t;
}

/* The table of codes minus 8: -8 to -1 are in the low half, 0 to 7 in the high half. */
AVX2_INLINE fused_planes centered_table(__m256i products) {
    const __m256i which = _mm256_setr_epi8(0, 1, 6, 7, 2, 3, 4, 5, 0, 1, 2, 3, 0, 1, 0, 1, -1, -1,
                                           0, 1, 0, 1, 2, 3, 0, 1, 4, 5, 2, 3, 6, 7);
    const __m256i halved = _mm256_setr_epi16(0, 0, 0, 0, 0x80, 0x80, 0x100, 0x180, 0, 0x180, 0x100,
                                             0x80, 0x80, 0, 0, 0);
    const __m256i signs =
        _mm256_inserti128_si256(_mm256_set1_epi16((short)0x8000), _mm_setzero_si128(), 1);
    __m256i values = _mm256_subs_epu16(_mm256_shuffle_epi8(products, which), halved);
    __m256i split = split_even_odd_bytes(_mm256_or_si256(values, signs));
    fused_planes t = {_mm256_permute4x64_epi64(split, _MM_SHUFFLE(2, 0, 2, 0)),
                      _mm256_permute4x64_epi64(split, _MM_SHUFFLE(3, 1, 3, 1))};
    return t;
}

/* Writes groups of 16 E2M1 values, two groups at a time. */
AVX2_INLINE void put_groups_of_16(unsigned char *d, const unsigned char *s, size_t pairs,
                                  const uint64_t *products, bool stream) {
    for (; pairs; pairs--, products += 2, s += 16, d += 64) {
        __m256i two = _mm256_castsi128_si256(avx2_load_half((const unsigned char *)products, 0));
        fused_planes t = e2m1_table(_mm256_permute4x64_epi64(two, _MM_SHUFFLE(1, 1, 0, 0)));
        __m256i codes = split_in_order(s, false);
        __m256i low = _mm256_shuffle_epi8(t.low, codes), high = _mm256_shuffle_epi8(t.high, codes);
        __m256i a = _mm256_unpacklo_epi8(low, high), b = _mm256_unpackhi_epi8(low, high);
        prefetch_codes(s, stream);
        avx2_store(d, 0, _mm256_permute2x128_si256(a, b, 0x20), stream);
        avx2_store(d, 1, _mm256_permute2x128_si256(a, b, 0x31), stream);
    }
}

/* Whole groups of codes of one kind, with the products of each. */
typedef struct packed_groups {
    const unsigned char *codes;
    const uint64_t *products;
    size_t count, size; /* the size of a group */
    tmi_code_kind kind; /* a constant where the functions are inlined */
} packed_groups;

/* Writes groups whose size is a multiple of 32. */
AVX2_INLINE void put_groups_of_32(unsigned char *d, packed_groups all, bool stream) {
    const unsigned char *s = all.codes;
    for (size_t g = 0; g < all.count; g++) {
        __m256i products = _mm256_set1_epi64x((long long)all.products[g]);
        fused_planes t =
            all.kind == TMI_KIND_E2M1 ? e2m1_table(products) : centered_table(products);
        prefetch_codes(s, stream);
        for (size_t i = 0; i < all.size; i += 32, s += 16, d += 64)
            put_32(d, split_32_for_unpack(s, false), &t, stream);
    }
}

/*
 * Writes the whole groups of a run, starting at group g, whose first value is `at`; returns how
 * many it wrote.
 */
AVX2_INLINE size_t put_kind_groups(unsigned char *d, const tmi_fused_run *run, size_t at, size_t g,
                                   tmi_code_kind kind, bool stream) {
    enum { PACKED = 128 };
    uint64_t products[PACKED];
    const size_t group = run->group, groups = (run->count - at) / group & ~(size_t)1;
    for (size_t done = 0, n; done < groups; done += n) {
        n = groups - done < PACKED ? groups - done : PACKED;
        if (!pack_products(products, run->scales + g + done, n, kind))
            return done;
        const unsigned char *s = run->codes + (at + done * group) / 2;
        unsigned char *to = d + (at + done * group) * 2;
        if (group == 16)
            put_groups_of_16(to, s, n / 2, products, stream);
        else
            put_groups_of_32(to, (packed_groups){s, products, n, group, kind}, stream);
    }
    return groups;
}

/* The first group ends at value `at`; returns how many following groups are done this way. */
AVX2_INLINE size_t put_known_kinds(unsigned char *d, const tmi_fused_run *run, size_t at, size_t g,
                                   bool stream) {
    bool whole = at % 2 == 0 && !run->zeros && run->group % 16 == 0;
    if (whole && run->kind == TMI_KIND_E2M1 && (run->group == 16 || run->group % 32 == 0))
        return put_kind_groups(d, run, at, g, TMI_KIND_E2M1, stream);
    if (whole && run->kind == TMI_KIND_CENTERED && run->group % 32 == 0)
        return put_kind_groups(d, run, at, g, TMI_KIND_CENTERED, stream);
    return 0;
}

AVX2_INLINE void run_fused4(unsigned char *d, const tmi_fused_run *run, avx2_form form,
                            bool high_first) {
    size_t groups = fused_group_count(run), g = run->first == run->group ? 0 : 1;
    size_t at = put_groups(d, run, (group_range){0, g, 0}, form, high_first);
    if (form.as == TENMAP_BF16 && !high_first) {
        size_t done = put_known_kinds(d, run, at, g, form.stream);
        at += done * run->group;
        g += done;
    }
    put_groups(d, run, (group_range){g, groups, at}, form, high_first);
}

AVX2_TARGET bool tmi_avx2_fused4(void *dst, tenmap_dtype as, const tmi_fused_run *run,
                                 uint32_t flags) {
    bool stream = fused_can_stream(dst, run, flags), saturate = flags & TENMAP_CONVERT_SATURATE;
    bool bytes = run->count <= run->first || (run->first % 2 == 0 && run->group % 2 == 0);
    size_t groups = fused_group_count(run);
    if (!bytes || (saturate && as == TENMAP_F32))
        return false;
    if (as == TENMAP_F32) {
        if (stream)
            run_fused4(dst, run, (avx2_form){TENMAP_F32, true, false}, run->high_first);
        else
            run_fused4(dst, run, (avx2_form){TENMAP_F32, false, false}, run->high_first);
        return true;
    }
    if (!fused_all_finite(run->scales, groups) || !fused_all_finite(run->table, 16) ||
        (run->zeros && !fused_all_finite(run->zeros, groups)))
        return false;
    if (as == TENMAP_BF16 && stream && !saturate && !run->high_first)
        run_fused4(dst, run, (avx2_form){TENMAP_BF16, true, false}, false);
    else if (as == TENMAP_BF16 && stream && !saturate)
        run_fused4(dst, run, (avx2_form){TENMAP_BF16, true, false}, true);
    else if (as == TENMAP_BF16)
        run_fused4(dst, run, (avx2_form){TENMAP_BF16, false, saturate}, run->high_first);
    else if (as == TENMAP_F16)
        run_fused4(dst, run, (avx2_form){TENMAP_F16, stream, saturate}, run->high_first);
    return as == TENMAP_BF16 || as == TENMAP_F16;
}

#endif
