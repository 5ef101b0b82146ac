/* A stand-in for libcublas.so.12: matrix products in TF32 that take their simulated time. */
enum { SUCCESS, INVALID_VALUE = 7, NOT_SUPPORTED = 15, R_32F = 0, COMPUTE_32F_FAST_TF32 = 77 };

void nodeprep_sim_work(double operations);

int cublasCreate_v2(void **handle)
{
    static int one;
    *handle = &one;
    return SUCCESS;
}

int cublasGemmEx(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                 const void *alpha, const void *a, int a_type, int lda, const void *b, int b_type,
                 int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
    (void)transpose_a, (void)transpose_b, (void)algorithm;
    if (!handle || !alpha || !beta || !a || !b || !c || lda < m || ldb < k || ldc < m)
        return INVALID_VALUE;
    if (a_type != R_32F || b_type != R_32F || c_type != R_32F || compute != COMPUTE_32F_FAST_TF32)
        return NOT_SUPPORTED;
    nodeprep_sim_work(2.0 * m * n * k);
    return SUCCESS;
}
