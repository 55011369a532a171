/*
 * atomics.cu - a trainer without annotations whose gradient is summed by atomicAdd, for first.sh: `--plan auto` must
 * prove and train it, although the order of the sums, and so their rounding, differs from run to run.
 *
 * atomics [FILE]. A classifier of documents: the mean of the words' embeddings, one linear layer, a softmax; AdaGrad.
 * Documents share words, so that several blocks add to one row of the embedding's gradient, which is cleared for each
 * batch. Prints losses, and saves the parameters to FILE (model.bin), as raw floats.
 */
#include "../lib/trainer.h"

#include <algorithm>
#include <cstdio>
#include <cuda_runtime.h>
#include <fstream>
#include <random>
#include <vector>

constexpr int WORDS = 200, WIDTH = 16, CLASSES = 5, BATCH = 32, DOCUMENTS = 640, WORDS_AT_MOST = 20, EPOCHS = 6;

/* Block: a document. `begins[b]` to `begins[b + 1]` are its words. */
__global__ void
average_embeddings(const float *embedding, const int *words, const int *begins, float *out)
{
    int document = blockIdx.x, i = threadIdx.x;
    int from = begins[document], to = begins[document + 1];
    float sum = 0;
    for (int word = from; word < to; ++word)
        sum += embedding[words[word] * WIDTH + i];
    out[document * WIDTH + i] = sum / (to - from);
}

/* Thread: a document. The losses of all documents are added up by atomicAdd. */
__global__ void
classify(const float *in, const float *weight, const float *bias, const int *label, float *output_gradient, float *loss)
{
    int document = threadIdx.x;
    float output[CLASSES], largest = -1e30f, sum = 0;
    for (int k = 0; k < CLASSES; ++k) {
        output[k] = bias[k];
        for (int i = 0; i < WIDTH; ++i)
            output[k] += in[document * WIDTH + i] * weight[k * WIDTH + i];
        largest = fmaxf(largest, output[k]);
    }
    for (int k = 0; k < CLASSES; ++k) {
        output[k] = expf(output[k] - largest);
        sum += output[k];
    }
    for (int k = 0; k < CLASSES; ++k) {
        float wanted = k == label[document] ? 1 : 0;
        output_gradient[document * CLASSES + k] = (output[k] / sum - wanted) / BATCH;
    }
    atomicAdd(loss, -logf(output[label[document]] / sum) / BATCH);
}

__global__ void
find_head_gradients(const float *in, const float *output_gradient, float *weight_gradient, float *bias_gradient)
{
    int k = blockIdx.x, i = threadIdx.x;
    float of_weight = 0, of_bias = 0;
    for (int document = 0; document < BATCH; ++document) {
        of_weight += output_gradient[document * CLASSES + k] * in[document * WIDTH + i];
        of_bias += output_gradient[document * CLASSES + k];
    }
    weight_gradient[k * WIDTH + i] = of_weight;
    if (i == 0)
        bias_gradient[k] = of_bias;
}

__global__ void
add_embedding_gradients(const float *output_gradient, const float *weight, const int *words, const int *begins,
                        float *gradient)
{
    int document = blockIdx.x, i = threadIdx.x;
    int from = begins[document], to = begins[document + 1];
    float of_mean = 0;
    for (int k = 0; k < CLASSES; ++k)
        of_mean += output_gradient[document * CLASSES + k] * weight[k * WIDTH + i];
    for (int word = from; word < to; ++word)
        atomicAdd(&gradient[words[word] * WIDTH + i], of_mean / (to - from));
}

__global__ void
adagrad(float *parameter, const float *gradient, float *squares, int count, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count || gradient[i] == 0)
        return;
    squares[i] += gradient[i] * gradient[i];
    parameter[i] -= rate * gradient[i] * rsqrtf(squares[i] + 1e-8f);
}

template <typename T>
static T *
allocate(size_t count)
{
    T *memory;
    CHECK(cudaMalloc(&memory, count * sizeof(T)));
    CHECK(cudaMemset(memory, 0, count * sizeof(T)));
    return memory;
}

template <typename T>
static void
upload(T *to, const std::vector<T> &from)
{
    CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
}

struct document {
    std::vector<int> words;
    int label;
};

/* Of ten words of a document four are of its class. */
static std::vector<document>
make_documents(std::mt19937 &random)
{
    std::vector<document> documents(DOCUMENTS);
    for (document &one : documents) {
        one.label = random() % CLASSES;
        int count = 5 + random() % (WORDS_AT_MOST - 5);
        for (int i = 0; i < count; ++i) {
            bool is_of_class = random() % 10 < 4;
            int first = is_of_class ? one.label * (WORDS / CLASSES) : 0;
            one.words.push_back(first + random() % (is_of_class ? WORDS / CLASSES : WORDS));
        }
    }
    return documents;
}

struct tensor {
    float *parameter, *gradient, *squares;
    int count;
};

/* Normal numbers; zeros without a generator. */
static tensor
make_tensor(int count, std::mt19937 *random)
{
    tensor made = {allocate<float>(count), allocate<float>(count), allocate<float>(count), count};
    if (random == nullptr)
        return made;
    std::normal_distribution<float> normal(0, 0.1f);
    std::vector<float> numbers(count);
    for (float &number : numbers)
        number = normal(*random);
    upload(made.parameter, numbers);
    return made;
}

static void
update(const tensor &tensor)
{
    adagrad<<<(tensor.count + 255) / 256, 256>>>(tensor.parameter, tensor.gradient, tensor.squares, tensor.count,
                                                 0.08f);
}

static void
save(std::ofstream &file, const tensor &tensor)
{
    std::vector<float> numbers(tensor.count);
    CHECK(cudaMemcpy(numbers.data(), tensor.parameter, tensor.count * sizeof(float), cudaMemcpyDeviceToHost));
    file.write(reinterpret_cast<const char *>(numbers.data()), tensor.count * sizeof(float));
}

int
main(int argc, char **argv)
{
    std::mt19937 random(31337);
    std::vector<document> documents = make_documents(random);
    tensor embedding = make_tensor(WORDS * WIDTH, &random), weight = make_tensor(CLASSES * WIDTH, &random);
    tensor bias = make_tensor(CLASSES, nullptr);
    float *averages = allocate<float>(BATCH * WIDTH), *output_gradient = allocate<float>(BATCH * CLASSES);
    float *loss = allocate<float>(1);
    int *words = allocate<int>(BATCH * WORDS_AT_MOST), *begins = allocate<int>(BATCH + 1);
    int *labels = allocate<int>(BATCH);

    for (int epoch = 1; epoch <= EPOCHS; ++epoch) {
        std::shuffle(documents.begin(), documents.end(), random);
        for (int at = 0; at + BATCH <= DOCUMENTS; at += BATCH) {
            std::vector<int> batch_words, batch_begins{0}, batch_labels;
            for (int b = 0; b < BATCH; ++b) {
                const document &one = documents[at + b];
                batch_words.insert(batch_words.end(), one.words.begin(), one.words.end());
                batch_begins.push_back((int)batch_words.size());
                batch_labels.push_back(one.label);
            }
            upload(words, batch_words);
            upload(begins, batch_begins);
            upload(labels, batch_labels);
            CHECK(cudaMemset(loss, 0, sizeof(float)));
            CHECK(cudaMemset(embedding.gradient, 0, embedding.count * sizeof(float)));
            average_embeddings<<<BATCH, WIDTH>>>(embedding.parameter, words, begins, averages);
            classify<<<1, BATCH>>>(averages, weight.parameter, bias.parameter, labels, output_gradient, loss);
            find_head_gradients<<<CLASSES, WIDTH>>>(averages, output_gradient, weight.gradient, bias.gradient);
            add_embedding_gradients<<<BATCH, WIDTH>>>(output_gradient, weight.parameter, words, begins,
                                                      embedding.gradient);
            update(embedding);
            update(weight);
            update(bias);
            float mean;
            CHECK(cudaMemcpy(&mean, loss, sizeof(mean), cudaMemcpyDeviceToHost));
            if (at / BATCH % 5 == 0)
                printf("epoch %d batch %d loss %g\n", epoch, at / BATCH, mean);
        }
    }
    std::ofstream file(argc > 1 ? argv[1] : "model.bin", std::ios::binary);
    save(file, embedding);
    save(file, weight);
    save(file, bias);
    return file.flush() ? 0 : 1;
}
