/*
 * The table of element types: one row for each TENMAP_* dtype of types.h, in the order of their
 * values. scripts/dtypes.sh compares it with the documentation and with the names that other
 * languages give to dtypes.
 */
#ifndef TENMAP_BASE_DTYPE_TABLE_H
#define TENMAP_BASE_DTYPE_TABLE_H

/*
 * Each row: name, bits per element, alignment of an element in bytes, kind, whether it has
 * infinity.
 */
#define TMI_DTYPES(X)                                                                              \
    X(AS_STORED, 0, 1, NONE, 0)                                                                    \
    X(BOOL, 8, 1, BOOL, 0)                                                                         \
    X(F4, 4, 1, FLOAT, 0)                                                                          \
    X(F6_E2M3, 6, 1, FLOAT, 0)                                                                     \
    X(F6_E3M2, 6, 1, FLOAT, 0)                                                                     \
    X(U8, 8, 1, UINT, 0)                                                                           \
    X(I8, 8, 1, INT, 0)                                                                            \
    X(F8_E5M2, 8, 1, FLOAT, 1)                                                                     \
    X(F8_E4M3, 8, 1, FLOAT, 0)                                                                     \
    X(F8_E8M0, 8, 1, FLOAT, 0)                                                                     \
    X(F8_E4M3FNUZ, 8, 1, FLOAT, 0)                                                                 \
    X(F8_E5M2FNUZ, 8, 1, FLOAT, 0)                                                                 \
    X(I16, 16, 2, INT, 0)                                                                          \
    X(U16, 16, 2, UINT, 0)                                                                         \
    X(F16, 16, 2, FLOAT, 1)                                                                        \
    X(BF16, 16, 2, FLOAT, 1)                                                                       \
    X(I32, 32, 4, INT, 0)                                                                          \
    X(U32, 32, 4, UINT, 0)                                                                         \
    X(F32, 32, 4, FLOAT, 1)                                                                        \
    X(C64, 64, 4, COMPLEX, 1)                                                                      \
    X(F64, 64, 8, FLOAT, 1)                                                                        \
    X(I64, 64, 8, INT, 0)                                                                          \
    X(U64, 64, 8, UINT, 0)

/*
 * Block dtypes. Each row: name, name of the scheme, bits per value, values that share a scale;
 * elements and bytes per block, alignment of the block in bytes. If one code stands for several
 * values, the bits are those per value.
 */
#define TMI_BLOCK_DTYPES(X)                                                                        \
    X(Q4_0, "q4_0", 4, 32, 32, 18, 2)                                                              \
    X(Q4_1, "q4_1", 4, 32, 32, 20, 2)                                                              \
    X(Q5_0, "q5_0", 5, 32, 32, 22, 2)                                                              \
    X(Q5_1, "q5_1", 5, 32, 32, 24, 2)                                                              \
    X(Q8_0, "q8_0", 8, 32, 32, 34, 2)                                                              \
    X(Q8_1, "q8_1", 8, 32, 32, 36, 2)                                                              \
    X(Q2_K, "q2_k", 2, 16, 256, 84, 2)                                                             \
    X(Q3_K, "q3_k", 3, 16, 256, 110, 2)                                                            \
    X(Q4_K, "q4_k", 4, 32, 256, 144, 2)                                                            \
    X(Q5_K, "q5_k", 5, 32, 256, 176, 2)                                                            \
    X(Q6_K, "q6_k", 6, 16, 256, 210, 2)                                                            \
    X(Q8_K, "q8_k", 8, 256, 256, 292, 4)                                                           \
    X(IQ2_XXS, "iq2_xxs", 2, 32, 256, 66, 2)                                                       \
    X(IQ2_XS, "iq2_xs", 2, 16, 256, 74, 2)                                                         \
    X(IQ3_XXS, "iq3_xxs", 3, 32, 256, 98, 2)                                                       \
    X(IQ1_S, "iq1_s", 1, 32, 256, 50, 2)                                                           \
    X(IQ4_NL, "iq4_nl", 4, 32, 32, 18, 2)                                                          \
    X(IQ3_S, "iq3_s", 3, 32, 256, 110, 2)                                                          \
    X(IQ2_S, "iq2_s", 2, 16, 256, 82, 2)                                                           \
    X(IQ4_XS, "iq4_xs", 4, 32, 256, 136, 2)                                                        \
    X(IQ1_M, "iq1_m", 1, 16, 256, 56, 1)                                                           \
    X(TQ1_0, "tq1_0", 2, 256, 256, 54, 2)                                                          \
    X(TQ2_0, "tq2_0", 2, 256, 256, 66, 2)                                                          \
    X(MXFP4, "mxfp4", 4, 32, 32, 17, 1)                                                            \
    X(NVFP4, "nvfp4", 4, 16, 64, 36, 1)                                                            \
    X(Q1_0, "q1_0", 1, 128, 128, 18, 2)

/* Enumerators of the values, so that the one after the last row is the number of rows. */
#define TMI_DTYPE_VALUE(id, bits, align, kind, infinity) TMI_DTYPE_##id = TENMAP_##id,
#define TMI_BLOCK_VALUE(id, scheme, bits, group, elements, bytes, align)                           \
    TMI_BLOCK_##id = TENMAP_##id - TENMAP_Q4_0,
enum { TMI_DTYPES(TMI_DTYPE_VALUE) TMI_DTYPE_COUNT };
enum { TMI_BLOCK_DTYPES(TMI_BLOCK_VALUE) TMI_BLOCK_ROWS };

#endif
