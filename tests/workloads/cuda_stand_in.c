/* The functions of CUDA's runtime, cuDNN and cuBLAS that the cudnn workload calls, computing on the processor in float32.
   Compiled against NVIDIA's own headers (-DWITH_HEADERS) it shows that the calls are as these declare them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_HEADERS
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#define TENSOR cudnnTensorDescriptor_t
#define FILTER cudnnFilterDescriptor_t
#define CONVOLUTION cudnnConvolutionDescriptor_t
#define ACTIVATION cudnnActivationDescriptor_t
#define POOLING cudnnPoolingDescriptor_t
#else
typedef int cudaError_t, cudnnStatus_t, cublasStatus_t, cudnnDataType_t, cudnnTensorFormat_t, cudnnConvolutionMode_t;
typedef int cudnnMathType_t, cudnnActivationMode_t, cudnnPoolingMode_t, cudnnNanPropagation_t, cublasOperation_t;
typedef int cudnnConvolutionFwdAlgo_t, cudnnDeterminism_t;
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
typedef void *cudnnHandle_t, *cublasHandle_t, *TENSOR, *FILTER, *CONVOLUTION, *ACTIVATION, *POOLING;
typedef struct {
    cudnnConvolutionFwdAlgo_t algo; cudnnStatus_t status; float time; size_t memory; cudnnDeterminism_t determinism;
    cudnnMathType_t mathType; int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;
#endif

typedef struct { int n, c, h, w, kind, a, b, math; } Described;

static int made(void *place) { *(void **)place = calloc(1, sizeof(Described)); return 0; }
#define D(pointer) ((Described *)(pointer))

cudaError_t cudaMalloc(void **place, size_t size) { *place = malloc(size); return 0; }
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
    if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToHost) return 1;
    memcpy(to, from, size);
    return 0;
}
cudaError_t cudaDeviceSynchronize(void) { return 0; }
const char *cudaGetErrorString(cudaError_t status) { return status ? "invalid argument" : "no error"; }
const char *cudnnGetErrorString(cudnnStatus_t status) { return status ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_SUCCESS"; }
const char *cublasGetStatusString(cublasStatus_t status) { return status ? "the parameter is wrong" : "success"; }
size_t cudnnGetVersion(void) { return 92800; }

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) { return made(handle); }
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) { return made(handle); }
cudnnStatus_t cudnnCreateTensorDescriptor(TENSOR *made_here) { return made(made_here); }
cudnnStatus_t cudnnCreateFilterDescriptor(FILTER *made_here) { return made(made_here); }
cudnnStatus_t cudnnCreateConvolutionDescriptor(CONVOLUTION *made_here) { return made(made_here); }
cudnnStatus_t cudnnCreateActivationDescriptor(ACTIVATION *made_here) { return made(made_here); }
cudnnStatus_t cudnnCreatePoolingDescriptor(POOLING *made_here) { return made(made_here); }

cudnnStatus_t cudnnSetTensor4dDescriptor(TENSOR d, cudnnTensorFormat_t f, cudnnDataType_t t, int n, int c, int h, int w) {
    if (f != 0 || t != 0) return 2000;
    D(d)->n = n; D(d)->c = c; D(d)->h = h; D(d)->w = w;
    return 0;
}
cudnnStatus_t cudnnSetFilter4dDescriptor(FILTER d, cudnnDataType_t t, cudnnTensorFormat_t f, int k, int c, int h, int w) {
    if (f != 0 || t != 0) return 2000;
    D(d)->n = k; D(d)->c = c; D(d)->h = h; D(d)->w = w;
    return 0;
}
cudnnStatus_t cudnnSetConvolution2dDescriptor(CONVOLUTION d, int pad_h, int pad_w, int u, int v, int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode, cudnnDataType_t type) {
    if (u != 1 || v != 1 || dilation_h != 1 || dilation_w != 1 || mode != 1 || type != 0) return 2000;
    D(d)->a = pad_h; D(d)->b = pad_w;
    return 0;
}
cudnnStatus_t cudnnSetConvolutionMathType(CONVOLUTION d, cudnnMathType_t math) { D(d)->math = math; return math != 3; }
cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const TENSOR x, const FILTER w, const CONVOLUTION c,
                                                     const TENSOR y, const int asked, int *count,
                                                     cudnnConvolutionFwdAlgoPerf_t *found) {
    if (!handle || !x || !w || !c || !y || asked < 3) return 2000;
    *count = 3;
    memset(found, 0, 3 * sizeof *found);
    found[0].algo = 6; found[0].status = 3000; found[0].mathType = 3; /* not supported */
    found[1].algo = 1; found[1].mathType = 1;                         /* tensor cores, in TF32 */
    found[2].algo = 0; found[2].mathType = 3; found[2].memory = 64;
    return 0;
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const TENSOR xd, const void *x, const FILTER wd,
                                      const void *w, const CONVOLUTION cd, cudnnConvolutionFwdAlgo_t algorithm, void *workspace,
                                      size_t size, const void *beta, const TENSOR yd, void *y) {
    if (!handle || algorithm != 0 || !workspace || size != 64 || *(float *)alpha != 1 || *(float *)beta != 0) return 2000;
    Described *i = D(xd), *f = D(wd), *o = D(yd);
    for (int n = 0; n < o->n; n++) for (int k = 0; k < o->c; k++) for (int r = 0; r < o->h; r++) for (int s = 0; s < o->w; s++) {
        float sum = 0;
        for (int c = 0; c < f->c; c++) for (int p = 0; p < f->h; p++) for (int q = 0; q < f->w; q++) {
            int row = r + p - D(cd)->a, column = s + q - D(cd)->b;
            if (row >= 0 && row < i->h && column >= 0 && column < i->w)
                sum += ((float *)x)[((n * i->c + c) * i->h + row) * i->w + column] * ((float *)w)[((k * f->c + c) * f->h + p) * f->w + q];
        }
        ((float *)y)[((n * o->c + k) * o->h + r) * o->w + s] = sum;
    }
    return 0;
}
cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, const TENSOR ad, const void *a, const void *beta,
                             const TENSOR cd, void *c) {
    Described *o = D(cd);
    if (!handle || D(ad)->n != 1 || D(ad)->c != o->c || *(float *)alpha != 1 || *(float *)beta != 1) return 2000;
    for (int n = 0; n < o->n * o->c; n++) for (int s = 0; s < o->h * o->w; s++)
        ((float *)c)[n * o->h * o->w + s] += ((float *)a)[n % o->c];
    return 0;
}
cudnnStatus_t cudnnSetActivationDescriptor(ACTIVATION d, cudnnActivationMode_t mode, cudnnNanPropagation_t nan, double c) {
    D(d)->kind = mode;
    return mode != 2 || nan != 0 || c != 0 ? 2000 : 0;
}
cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle, ACTIVATION d, const void *alpha, const TENSOR xd, const void *x,
                                     const void *beta, const TENSOR yd, void *y) {
    if (!handle || D(d)->kind != 2 || *(float *)alpha != 1 || *(float *)beta != 0 || D(xd)->n != D(yd)->n) return 2000;
    for (int s = 0; s < D(xd)->n * D(xd)->c * D(xd)->h * D(xd)->w; s++) ((float *)y)[s] = tanhf(((float *)x)[s]);
    return 0;
}
cudnnStatus_t cudnnSetPooling2dDescriptor(POOLING d, cudnnPoolingMode_t mode, cudnnNanPropagation_t nan, int h, int w, int pad_h,
                                          int pad_w, int u, int v) {
    D(d)->kind = mode; D(d)->h = h; D(d)->w = w;
    return nan != 0 || pad_h != 0 || pad_w != 0 || u != h || v != w ? 2000 : 0;
}
cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const POOLING d, const void *alpha, const TENSOR xd, const void *x,
                                  const void *beta, const TENSOR yd, void *y) {
    if (!handle || D(d)->kind != 2 || *(float *)alpha != 1 || *(float *)beta != 0) return 2000;
    Described *i = D(xd), *o = D(yd);
    for (int n = 0; n < o->n * o->c; n++) for (int r = 0; r < o->h; r++) for (int s = 0; s < o->w; s++) {
        float sum = 0;
        for (int p = 0; p < D(d)->h; p++) for (int q = 0; q < D(d)->w; q++)
            sum += ((float *)x)[(n * i->h + r * D(d)->h + p) * i->w + s * D(d)->w + q];
        ((float *)y)[(n * o->h + r) * o->w + s] = sum / (D(d)->h * D(d)->w);
    }
    return 0;
}
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                              const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
                              int ldc) {
    if (!handle || ta != 1 || tb != 0 || *alpha != 1 || *beta != 0 || lda < k || ldb < k || ldc < m) return 7;
    for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) {
        float sum = 0;
        for (int p = 0; p < k; p++) sum += a[i * lda + p] * b[j * ldb + p];
        c[j * ldc + i] = sum;
    }
    return 0;
}
