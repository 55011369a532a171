/*
 * mixed.cu - one program with launches of every kind: by the runtime, by cuBLAS, and by the driver, which gets a
 * CUfunction in one launch and a CUkernel that a library has listed in the next.
 */
#include "perceptron.h"

static struct {
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                       void **, void **);
    CUresult (*library_of)(CUlibrary *, CUkernel);
    CUresult (*list_kernels)(CUkernel *, unsigned, CUlibrary);
} driver;

/* As programs find the driver's functions that are not linked with it. */
static void *
driver_function(const char *name)
{
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult status;
    CHECK(cudaGetDriverEntryPointByVersion(name, &found, 13000, cudaEnableDefault, &status));
    REQUIRE(found != NULL);
    return found;
}

static void
driver_open(void)
{
    *(void **)&driver.launch = driver_function("cuLaunchKernel");
    *(void **)&driver.library_of = driver_function("cuKernelGetLibrary");
    *(void **)&driver.list_kernels = driver_function("cuLibraryEnumerateKernels");
}

/* The CUkernel of the one kernel that its library holds. */
static CUfunction
listed_kernel(const void *kernel)
{
    enum { ROOM = 4 };
    cudaKernel_t handle;
    CUlibrary library;
    CUkernel listed[ROOM] = {NULL};
    CHECK(cudaGetKernel(&handle, kernel));
    CHECK(driver.library_of(&library, (CUkernel)handle));
    CHECK(driver.list_kernels(listed, ROOM, library));
    REQUIRE(listed[1] == NULL); /* a library of one kernel */
    return (CUfunction)listed[0];
}

enum form { RUNTIME, FUNCTION, LISTED };

/* CUfunctions begin backward: where an engine takes them for unknown, other layers still overlap. */
static enum form
form_of(int l)
{
    return l == LAYERS - 1 ? FUNCTION : l % 2 == 0 ? RUNTIME : LISTED;
}

template <typename... Parameters, typename... Arguments>
static void
launch_as(enum form form, void (*kernel)(Parameters...), size_t count, cudaStream_t stream, Arguments... arguments)
{
    if (form == RUNTIME) {
        LAUNCH(kernel, count, stream)(arguments...);
        return;
    }
    cudaFunction_t function;
    CHECK(cudaGetFuncBySymbol(&function, (const void *)kernel));
    void *params[] = {&arguments...};
    CHECK(driver.launch(form == FUNCTION ? (CUfunction)function : listed_kernel((const void *)kernel),
                        blocks_for(count), 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
}

static void
backward(const struct perceptron *net, cublasHandle_t blas, size_t first_item, int count, cudaStream_t stream)
{
    const float keep = 0.0f, scale = 1.0f;
    for (int l = LAYERS - 1; l >= 0; --l) {
        const struct dense *layer = &net->layers[l];
        const float *input = perceptron_input(net, l, first_item);
        if (l % 4 == 3)
            blas_weight_gradient(blas, layer->weight_gradient, layer->delta, input, WIDTH, WIDTH, count, keep, 1.0f);
        else
            launch_as(form_of(l), weight_gradient, WIDTH * WIDTH, stream, layer->weight_gradient, layer->delta, input,
                      (int)WIDTH, (int)WIDTH, count, keep, scale);
        launch_as(form_of(l), bias_gradient, WIDTH, stream, layer->bias_gradient, layer->delta, (int)WIDTH, count, keep,
                  scale);
        if (l > 0)
            dense_run_delta(layer, &net->layers[l - 1], count, stream);
    }
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    cudaStream_t stream = trainer_start(argc, argv);
    driver_open();
    cublasHandle_t blas = blas_create(stream);
    perceptron_create(&net, 0, 1, true);
    perceptron_annotate_gradients(&net);

    return perceptron_train(&net, stream, [&](int, size_t first_item, int count) {
        backward(&net, blas, first_item, count, stream);
        DDP_STEP(stream);
        perceptron_update(&net, 0.2f, stream);
    });
}
