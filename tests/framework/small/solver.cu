/*
 * solver.cu - a thread that prepares batches ahead, and SGD with momentum over a list of parameters. The only file
 * that ddprun's annotations change.
 */
#include "net.cuh"
#include "small.h"

#include <ddprun.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>

/* Four buffers go round. Items are made of their number: 12 values, and the class that a fixed rule gives them. */
template <class T> class Loader
{
    enum { BUFFERS = 4 };
    struct Batch {
        Tensor<T> items;
        Tensor<int> classes;
        T *host_items;
        int *host_classes;
    } buffers[BUFFERS];
    long filled = 0, given = 0; /* batches */
    bool ends = false;
    std::mutex mutex;
    std::condition_variable changed;
    const options &of;
    cudaStream_t stream;
    std::thread thread;

    /* Step s of process `rank` of `count` gets items [(s * count + rank) * batch, ... + batch). */
    void fill(Batch &to, long step)
    {
        for (int i = 0; i < of.batch; ++i) {
            std::mt19937 source((unsigned)((step * of.count + of.rank) * of.batch + i));
            T *const item = to.host_items + i * ITEM_INPUTS;
            int best = 0;
            for (int j = 0; j < ITEM_INPUTS; ++j)
                item[j] = (T)((float)(source() % 2001) / 1000.0f - 1.0f);
            for (int j = 1; j < ITEM_CLASSES; ++j)
                best = item[j] + item[j + ITEM_CLASSES] > item[best] + item[best + ITEM_CLASSES] ? j : best;
            to.host_classes[i] = best;
        }
        SMALL_CHECK(cudaMemcpyAsync(to.items.data, to.host_items, to.items.count() * sizeof(T), cudaMemcpyHostToDevice,
                                    stream));
        SMALL_CHECK(cudaMemcpyAsync(to.classes.data, to.host_classes, to.classes.count() * sizeof(int),
                                    cudaMemcpyHostToDevice, stream));
        SMALL_CHECK(cudaStreamSynchronize(stream));
    }
    void run()
    {
        std::unique_lock<std::mutex> lock(mutex);
        while (changed.wait(lock, [this] { return ends || filled < given + BUFFERS; }), !ends) {
            lock.unlock();
            fill(buffers[filled % BUFFERS], filled);
            lock.lock();
            ++filled;
            changed.notify_all();
        }
    }

  public:
    explicit Loader(const options &options) : of(options)
    {
        SMALL_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (Batch &buffer : buffers) {
            buffer.items.resize(of.batch, ITEM_INPUTS);
            buffer.classes.resize(of.batch, 1);
            SMALL_CHECK(cudaMallocHost((void **)&buffer.host_items, buffer.items.count() * sizeof(T)));
            SMALL_CHECK(cudaMallocHost((void **)&buffer.host_classes, buffer.classes.count() * sizeof(int)));
        }
        SMALL_CHECK(cudaDeviceSynchronize());
        thread = std::thread(&Loader::run, this);
    }
    ~Loader()
    {
        say([this] { ends = true; });
        thread.join();
        for (Batch &buffer : buffers) {
            SMALL_CHECK(cudaFreeHost(buffer.host_items));
            SMALL_CHECK(cudaFreeHost(buffer.host_classes));
        }
        SMALL_CHECK(cudaStreamDestroy(stream));
    }
    template <class F> void say(F what)
    {
        std::lock_guard<std::mutex> lock(mutex);
        what();
        changed.notify_all();
    }
    /* The next batch, in device memory; waits for it. */
    const Batch &take()
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return filled > given; });
        return buffers[given % BUFFERS];
    }
    /* No work of the device needs the batch any more. */
    void give()
    {
        say([this] { ++given; });
    }
};

template <class T>
__global__ void
sgd(T *value, T *momentum, const T *gradient, int count, T rate)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        momentum[i] = T(0.9) * momentum[i] + rate * gradient[i];
        value[i] -= momentum[i];
    }
}

template <class T> class Solver
{
    std::vector<std::unique_ptr<Layer<T>>> layers;
    Tensor<T> item_losses;
    Loader<T> loader;
    const T clip;

    void clip_gradients()
    {
        T squares = 0;
        for (const Param<T> *param : trained) {
            T part = 0;
            const T *const gradient = param->gradient.data;
            SMALL_CHECK(dot(T())(small_blas(), (int)param->gradient.count(), gradient, 1, gradient, 1, &part));
            squares += part;
        }
        const T by = clip / std::sqrt(squares);
        if (by >= T(1))
            return;
        ++clipped;
        for (Param<T> *param : trained)
            SMALL_CHECK(scal(T())(small_blas(), (int)param->gradient.count(), &by, param->gradient.data, 1));
    }

  public:
    std::vector<Param<T> *> params, trained;
    int clipped = 0; /* steps so far whose gradients were scaled */

    explicit Solver(const options &options) : loader(options), clip((T)options.clip)
    {
        enum { HIDDEN = 24 };
        const int batch = options.batch;
        layers.push_back(std::make_unique<Dense<T>>("first", batch, ITEM_INPUTS, HIDDEN));
        layers.push_back(std::make_unique<Scale<T>>("scale", batch, HIDDEN, options.batch_means));
        layers.push_back(std::make_unique<Relu<T>>(batch, HIDDEN));
        layers.push_back(std::make_unique<Dense<T>>("second", batch, HIDDEN, ITEM_CLASSES));
        item_losses.resize(batch, 1);
        for (const auto &layer : layers)
            for (const auto &param : layer->params) {
                const size_t count = param->value.count();
                params.push_back(param.get());
                if (param->rate == T(0)) {
                    DDP_BUFFER(param->value.data, count, DDP_TYPE_OF(param->value.data));
                    continue;
                }
                trained.push_back(param.get());
                DDP_PARAMETER(param->value.data, count, DDP_TYPE_OF(param->value.data));
                DDP_GRADIENT(param->gradient.data, count, DDP_TYPE_OF(param->gradient.data));
                DDP_STATE(param->momentum.data, count, DDP_TYPE_OF(param->momentum.data));
            }
    }

    /* The loss of its batch. */
    T step()
    {
        const auto &batch = loader.take();
        const auto input = [&](size_t i) -> const Tensor<T> & { return i == 0 ? batch.items : layers[i - 1]->output; };
        for (size_t i = 0; i < layers.size(); ++i)
            layers[i]->forward(input(i));
        Layer<T> &last = *layers.back();
        softmax_loss FOR(batch.items.rows)(item_losses.data, last.delta.data, last.output.data, batch.classes.data,
                                           batch.items.rows, last.output.columns);
        for (size_t i = layers.size(); i-- > 0;)
            layers[i]->backward(input(i), i == 0 ? nullptr : &layers[i - 1]->delta);
        DDP_STEP(0);
        if (clip > T(0))
            clip_gradients();
        for (Param<T> *param : trained)
            sgd FOR(param->value.count())(param->value.data, param->momentum.data, param->gradient.data,
                                          (int)param->value.count(), T(0.1) * param->rate);
        T loss = 0;
        for (T x : item_losses.read())
            loss += x;
        DDP_MEAN(&loss);
        SMALL_CHECK(cudaDeviceSynchronize());
        loader.give();
        return loss;
    }
};

template <class T>
int
train(const options &options)
{
    Solver<T> solver(options);
    T loss = 0;
    for (int step = 0; step < options.steps; ++step)
        loss = solver.step();
    if (options.rank == 0)
        std::printf("%d steps, %d clipped, loss %.4f\n", options.steps, solver.clipped, (double)loss);
    FILE *const file = options.save != nullptr ? std::fopen(options.save, "w") : nullptr;
    SMALL_CHECK(options.save != nullptr && file == nullptr);
    for (const Param<T> *param : solver.params)
        for (T value : file != nullptr ? param->value.read() : std::vector<T>())
            std::fprintf(file, "%s %.17g\n", param->name.c_str(), (double)value);
    SMALL_CHECK(file != nullptr && std::fclose(file) != 0);
    return 0;
}

template int train<float>(const options &);
template int train<double>(const options &);
