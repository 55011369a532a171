/*
 * framework.cu [STEPS [FILE...]] - a trainer on a small framework: tensors in a class, layers as templates behind an
 * interface, cuBLAS behind a wrapper, momentum, and one function that makes a step. It has no annotation: lines.sh puts
 * in what `ddprun scout` prints.
 */
#include "tests/trainer.h"

#include <cublas_v2.h>
#include <memory>
#include <vector>

enum { INPUTS = 12, HIDDEN = 24, OUTPUTS = 5, BATCH = 16, THREADS = 64 };

static unsigned
blocks(size_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

/* In [-1, 1). */
static float
noise()
{
    static unsigned state = 12345;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

class Tensor
{
  public:
    float *data = nullptr;
    size_t size = 0;

    void allocate(size_t rows, size_t columns)
    {
        size = rows * columns;
        CHECK(cudaMalloc(&data, rows * columns * sizeof(float)));
        CHECK(cudaMemset(data, 0, size * sizeof(float)));
    }
    void upload(const float *values)
    {
        CHECK(cudaMemcpy(data, values, size * sizeof(float), cudaMemcpyHostToDevice));
    }
    void randomize(float scale)
    {
        std::vector<float> values(size);
        for (float &value : values)
            value = scale * noise();
        upload(values.data());
    }
};

/* A weight with all that belongs to it. */
struct Parameter {
    Tensor value, gradient, velocity;
};

/* Row by row: cuBLAS, which goes column by column, gets the operands exchanged. */
class Blas
{
  public:
    Blas()
    {
        CHECK(cublasCreate(&handle));
    }
    ~Blas()
    {
        CHECK(cublasDestroy(handle));
    }
    void multiply(Tensor &c, const Tensor &a, bool a_turned, const Tensor &b, bool b_turned, int rows, int columns,
                  int inner)
    {
        const float one = 1.0f, zero = 0.0f;
        CHECK(cublasSgemm(handle, b_turned ? CUBLAS_OP_T : CUBLAS_OP_N, a_turned ? CUBLAS_OP_T : CUBLAS_OP_N, columns,
                          rows, inner, &one, b.data, b_turned ? inner : columns, a.data, a_turned ? rows : inner, &zero,
                          c.data, columns));
    }

  private:
    cublasHandle_t handle;
};

struct Tanh {
    static __device__ float of(float x)
    {
        return tanhf(x);
    }
    static __device__ float slope(float y)
    {
        return 1.0f - y * y;
    }
};

struct Linear {
    static __device__ float of(float x)
    {
        return x;
    }
    static __device__ float slope(float)
    {
        return 1.0f;
    }
};

template <class Activation>
__global__ void
activate(float *values, const float *bias, int columns, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = Activation::of(values[i] + bias[i % columns]);
}

template <class Activation>
__global__ void
deactivate(float *delta, const float *values, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        delta[i] *= Activation::slope(values[i]);
}

static __global__ void
sum_rows(float *sums, const float *values, int columns, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= columns)
        return;
    float sum = 0.0f;
    for (int row = 0; row < rows; ++row)
        sum += values[row * columns + i];
    sums[i] = sum;
}

static __global__ void
squared_error(float *delta, const float *output, const float *target, int count, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        delta[i] = scale * (output[i] - target[i]);
}

static __global__ void
momentum(float *value, float *velocity, const float *gradient, int count, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        velocity[i] = 0.9f * velocity[i] + gradient[i];
        value[i] -= rate * velocity[i];
    }
}

class Optimizer
{
  public:
    explicit Optimizer(float rate) : rate(rate)
    {
    }
    void apply(Parameter &parameter)
    {
        momentum<<<blocks(parameter.value.size), THREADS>>>(parameter.value.data, parameter.velocity.data,
                                                            parameter.gradient.data, (int)parameter.value.size, rate);
    }

  private:
    float rate;
};

class Layer
{
  public:
    Tensor output, delta;
    virtual ~Layer() = default;
    virtual void forward(Blas &blas, const Tensor &input) = 0;
    virtual void backward(Blas &blas, const Tensor &input, Tensor *input_delta) = 0;
    virtual void update(Optimizer &optimizer) = 0;
};

template <class Activation> class Dense : public Layer
{
  public:
    Dense(int inputs, int outputs) : inputs(inputs), outputs(outputs)
    {
        create(weight, (size_t)inputs, (size_t)outputs);
        create(bias, 1, (size_t)outputs);
        weight.value.randomize(1.0f / sqrtf((float)inputs));
        output.allocate(BATCH, (size_t)outputs);
        delta.allocate(BATCH, (size_t)outputs);
    }

    void forward(Blas &blas, const Tensor &input) override
    {
        blas.multiply(output, input, false, weight.value, false, BATCH, outputs, inputs);
        activate<Activation><<<blocks(output.size), THREADS>>>(output.data, bias.value.data, outputs, (int)output.size);
    }

    void backward(Blas &blas, const Tensor &input, Tensor *input_delta) override
    {
        deactivate<Activation><<<blocks(output.size), THREADS>>>(delta.data, output.data, (int)output.size);
        blas.multiply(weight.gradient, input, true, delta, false, inputs, outputs, BATCH);
        sum_rows<<<blocks((size_t)outputs), THREADS>>>(bias.gradient.data, delta.data, outputs, BATCH);
        if (input_delta != nullptr)
            blas.multiply(*input_delta, delta, false, weight.value, true, BATCH, inputs, outputs);
    }

    void update(Optimizer &optimizer) override
    {
        optimizer.apply(weight);
        optimizer.apply(bias);
    }

  private:
    Parameter weight, bias;
    int inputs, outputs;

    static void create(Parameter &parameter, size_t rows, size_t columns)
    {
        parameter.value.allocate(rows, columns);
        parameter.gradient.allocate(rows, columns);
        parameter.velocity.allocate(rows, columns);
    }
};

class Model
{
  public:
    Model() : optimizer(0.05f)
    {
        layers.push_back(std::make_unique<Dense<Tanh>>(INPUTS, HIDDEN));
        layers.push_back(std::make_unique<Dense<Tanh>>(HIDDEN, HIDDEN));
        layers.push_back(std::make_unique<Dense<Linear>>(HIDDEN, OUTPUTS));
        input.allocate(BATCH, INPUTS);
        target.allocate(BATCH, OUTPUTS);
    }

    void step(const std::vector<float> &inputs, const std::vector<float> &targets)
    {
        input.upload(inputs.data());
        target.upload(targets.data());
        const Tensor *from = &input;
        for (auto &layer : layers) {
            layer->forward(blas, *from);
            from = &layer->output;
        }
        Layer &last = *layers.back();
        squared_error<<<blocks(last.delta.size), THREADS>>>(last.delta.data, last.output.data, target.data,
                                                            (int)last.delta.size, 1.0f / BATCH);
        for (size_t i = layers.size(); i-- > 0;)
            layers[i]->backward(blas, i > 0 ? layers[i - 1]->output : input, i > 0 ? &layers[i - 1]->delta : nullptr);
        for (auto &layer : layers)
            layer->update(optimizer);
    }

  private:
    Blas blas;
    Optimizer optimizer;
    std::vector<std::unique_ptr<Layer>> layers;
    Tensor input, target;
};

int
main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 24;
    std::vector<float> inputs(BATCH * INPUTS), targets(BATCH * OUTPUTS);
    for (int i = 2; i < argc; ++i) {
        FILE *file = fopen(argv[i], "r");
        REQUIRE(file != NULL && fgetc(file) != EOF && fclose(file) == 0);
        noise();
    }
    Model model;
    for (int step = 0; step < steps; ++step) {
        for (float &value : inputs)
            value = noise();
        for (size_t i = 0; i < targets.size(); ++i)
            targets[i] = 0.5f * inputs[i / OUTPUTS * INPUTS + i % OUTPUTS];
        model.step(inputs, targets);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
