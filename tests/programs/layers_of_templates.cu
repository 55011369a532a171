/*
 * layers_of_templates.cu - the lines of `ddprun scout` where layers are templates behind an interface, and smart
 * pointers hold all memory: allocations are counted. A batch is shared after the call that uploads it, or after a copy
 * to the pointer's get().
 */
#include "tests/programs/layer.h"

#include <memory>

struct Release {
    void operator()(float *memory) const
    {
        CHECK(cudaFree(memory));
    }
};

class Buffer
{
    std::unique_ptr<float[], Release> memory;

  public:
    explicit Buffer(size_t count) : memory(device_floats(count))
    {
    }
    float *get() const
    {
        return memory.get();
    }
    void upload(const std::vector<float> &values)
    {
        CHECK(cudaMemcpy(memory.get(), values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
};

struct Layer {
    virtual ~Layer() = default;
    virtual const float *forward(const float *input) = 0;
    virtual const float *backward(const float *delta) = 0;
    virtual void update(float rate) = 0;
};

template <int IN, int OUT> class Dense : public Layer
{
    Buffer weight, gradient, momentum, output, below;
    const float *input = nullptr;

  public:
    explicit Dense(unsigned seed)
        : weight(IN * OUT), gradient(IN * OUT), momentum(IN * OUT), output(BATCH * OUT), below(BATCH * IN)
    {
        weight.upload(host_noise(seed, IN * OUT, 0.4f));
    }
    const float *forward(const float *x) override
    {
        input = x;
        dense_forward<<<blocks_for(BATCH * OUT), THREADS>>>(output.get(), x, weight.get(), nullptr, IN, OUT, BATCH);
        return output.get();
    }
    const float *backward(const float *delta) override
    {
        weight_gradient<<<blocks_for(IN * OUT), THREADS>>>(gradient.get(), delta, input, IN, OUT, BATCH, 0.0f, 1.0f);
        input_delta<<<blocks_for(BATCH * IN), THREADS>>>(below.get(), weight.get(), delta, input, IN, OUT, BATCH);
        return below.get();
    }
    void update(float rate) override
    {
        sgd<<<blocks_for(IN * OUT), THREADS>>>(weight.get(), momentum.get(), gradient.get(), IN * OUT, rate);
    }
};

int
main()
{
    std::vector<std::unique_ptr<Layer>> net;
    net.push_back(std::make_unique<Dense<INPUTS, 16>>(1));
    net.push_back(std::make_unique<Dense<16, OUTPUTS>>(2));
    Buffer x(BATCH * INPUTS), target(BATCH * OUTPUTS), delta(BATCH * OUTPUTS);
    const std::vector<float> targets = host_noise(6, ITEMS * OUTPUTS, 0.8f);
    for (unsigned step = 0; step < STEPS; ++step) {
        x.upload(host_noise(100 + step, BATCH * INPUTS, 1.0f));
        CHECK(cudaMemcpy(target.get(), &targets[step * BATCH * OUTPUTS], BATCH * OUTPUTS * sizeof(float),
                         cudaMemcpyHostToDevice));
        const float *output = x.get(), *above = delta.get();
        for (auto &layer : net)
            output = layer->forward(output);
        loss_delta<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(delta.get(), output, target.get(), OUTPUTS, BATCH);
        for (auto layer = net.rbegin(); layer != net.rend(); ++layer)
            above = (*layer)->backward(above);
        for (auto &layer : net)
            layer->update(0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
