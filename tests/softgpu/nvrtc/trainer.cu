/*
 * trainer.cu - one trainer in two builds: its kernels are softgpu-cc's, or, with -DJIT, made by NVRTC when it starts.
 * It has no annotations. For tools.sh, which compares what ddprun finds in both.
 */
#include "trainer_kernels.cuh"

#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>

static void
require(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "failed: %s\n", what);
    exit(2);
}
#define REQUIRE(call) require((call) == 0, #call)

#ifdef JIT
#include <nvrtc.h>
#include <string>

static CUfunction
find(const char *name)
{
    static CUmodule module;
    static nvrtcProgram program;
    const char *lowered;
    static const char *const names[] = {"hidden_forward",  "output_forward", "output_backward",
                                        "hidden_backward", "input_backward", "update<1>"};
    if (module == nullptr) {
        std::string source(1 << 16, '\0'), ptx;
        size_t bytes = 0;
        FILE *file = fopen(KERNELS, "r");
        require(file != nullptr && fread(&source[0], 1, source.size() - 1, file) > 0, KERNELS);
        fclose(file);
        REQUIRE(nvrtcCreateProgram(&program, source.c_str(), "trainer_kernels.cuh", 0, nullptr, nullptr));
        for (const char *expression : names)
            REQUIRE(nvrtcAddNameExpression(program, expression));
        REQUIRE(nvrtcCompileProgram(program, 0, nullptr));
        REQUIRE(nvrtcGetPTXSize(program, &bytes));
        ptx.resize(bytes);
        REQUIRE(nvrtcGetPTX(program, &ptx[0]));
        REQUIRE(cuModuleLoadData(&module, ptx.c_str()));
    }
    CUfunction function;
    REQUIRE(nvrtcGetLoweredName(program, name, &lowered));
    REQUIRE(cuModuleGetFunction(&function, module, lowered));
    return function;
}

template <class... A>
static void
launch(CUfunction function, unsigned blocks, unsigned threads, A... arguments)
{
    void *addresses[] = {&arguments...};
    REQUIRE(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, nullptr, addresses, nullptr));
}
#define LAUNCH(kernel, blocks, threads, ...)              \
    do {                                                  \
        static const CUfunction function = find(#kernel); \
        launch(function, blocks, threads, __VA_ARGS__);   \
    } while (0)
#else
#define LAUNCH(kernel, blocks, threads, ...) kernel<<<blocks, threads>>>(__VA_ARGS__)
#endif

struct tensor {
    float *weights, *gradient, *momentum;
    int count;
};

static float *
zeros(int count)
{
    float *memory;
    REQUIRE(cudaMalloc(&memory, count * sizeof(float)));
    REQUIRE(cudaMemset(memory, 0, count * sizeof(float)));
    return memory;
}

static tensor
make_tensor(int count)
{
    tensor made = {zeros(count), zeros(count), zeros(count), count};
    float *start = new float[count];
    for (int i = 0; i < count; ++i)
        start[i] = (float)((i * 29 + count) % 17) / 40 - .2f;
    REQUIRE(cudaMemcpy(made.weights, start, count * sizeof(float), cudaMemcpyHostToDevice));
    delete[] start;
    return made;
}

static void
step(const tensor &t, float rate)
{
    LAUNCH(update<1>, (t.count + 31) / 32, 32, t.weights, (const float *)t.gradient, t.momentum, rate, t.count);
}

int
main()
{
    tensor first = make_tensor(IN * HIDDEN), bias = make_tensor(HIDDEN), second = make_tensor(HIDDEN * OUT);
    float *x = zeros(BATCH * IN), *h = zeros(BATCH * HIDDEN), *delta = zeros(BATCH * OUT), *dh = zeros(BATCH * HIDDEN);
    float host[BATCH * IN], end[HIDDEN * OUT], sum = 0;
    for (int number = 0; number < 40; ++number) {
        for (float &value : host)
            value = (float)(rand() % 2001 - 1000) * 1e-3f;
        REQUIRE(cudaMemcpy(x, host, sizeof(host), cudaMemcpyHostToDevice));
        LAUNCH(hidden_forward, BATCH, HIDDEN, (const float *)x, (const float *)first.weights,
               (const float *)bias.weights, h);
        LAUNCH(output_forward, BATCH, OUT, (const float *)h, (const float *)x, (const float *)second.weights, delta);
        LAUNCH(output_backward, HIDDEN, OUT, (const float *)h, (const float *)delta, second.gradient);
        LAUNCH(hidden_backward, BATCH, HIDDEN, (const float *)h, (const float *)delta, (const float *)second.weights,
               dh);
        LAUNCH(input_backward, IN + 1, HIDDEN, (const float *)x, (const float *)dh, first.gradient, bias.gradient);
        step(first, .1f);
        step(bias, .1f);
        step(second, .1f);
    }
    REQUIRE(cudaMemcpy(end, second.weights, sizeof(end), cudaMemcpyDeviceToHost));
    for (float value : end)
        sum += value;
    printf("sum of the weights %.6f\n", sum);
    return 0;
}
