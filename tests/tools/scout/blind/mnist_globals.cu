// Two layer perceptron for small digit-like images, plain C style.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define INPUT_SIZE 64
#define HIDDEN_SIZE 20
#define OUTPUT_SIZE 10
#define TRAIN_SIZE 640
#define BATCH_SIZE 32
#define EPOCHS 4
#define LEARNING_RATE 0.2f

#define CHECK(call)                                                        \
    do {                                                                   \
        cudaError_t err_ = (call);                                         \
        if (err_ != cudaSuccess) {                                         \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__,             \
                    cudaGetErrorString(err_));                             \
            exit(EXIT_FAILURE);                                            \
        }                                                                  \
    } while (0)

static float *d_W1, *d_b1, *d_W2, *d_b2;
static float *d_dW1, *d_db1, *d_dW2, *d_db2;
static float *d_X, *d_hidden, *d_output, *d_dhidden, *d_doutput;
static int *d_labels;

static float h_images[TRAIN_SIZE * INPUT_SIZE];
static int h_labels[TRAIN_SIZE];

static unsigned int lcg_state = 12345u;

static float frand(void) {
    lcg_state = lcg_state * 1664525u + 1013904223u;
    return (float)(lcg_state >> 8) / 16777216.0f;
}

__global__ void forward_layer(const float *W, const float *b, const float *in, float *out,
                              int n_in, int n_out, int use_relu) {
    int j = threadIdx.x;
    int row = blockIdx.x;
    if (j >= n_out) return;
    float s = b[j];
    for (int k = 0; k < n_in; k++) s += in[row * n_in + k] * W[k * n_out + j];
    out[row * n_out + j] = (use_relu && s < 0.0f) ? 0.0f : s;
}

__global__ void softmax(float *x, int n, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float *p = x + r * n;
    float m = p[0];
    for (int i = 1; i < n; i++) m = fmaxf(m, p[i]);
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        p[i] = expf(p[i] - m);
        sum += p[i];
    }
    for (int i = 0; i < n; i++) p[i] /= sum;
}

__global__ void output_delta(const float *probs, const int *labels, float *delta, int n, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * rows) return;
    delta[i] = (probs[i] - (labels[i / n] == i % n ? 1.0f : 0.0f)) / rows;
}

__global__ void hidden_delta(const float *W2, const float *dout, const float *hidden, float *dhid) {
    int j = threadIdx.x, row = blockIdx.x;
    float s = 0.0f;
    for (int k = 0; k < OUTPUT_SIZE; k++) s += dout[row * OUTPUT_SIZE + k] * W2[j * OUTPUT_SIZE + k];
    dhid[row * HIDDEN_SIZE + j] = hidden[row * HIDDEN_SIZE + j] > 0.0f ? s : 0.0f;
}

__global__ void weight_grad(const float *in, const float *delta, float *dW, float *db,
                            int n_in, int n_out, int rows) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < n_in * n_out) {
        int i = idx / n_out, j = idx % n_out;
        float s = 0.0f;
        for (int r = 0; r < rows; r++) s += in[r * n_in + i] * delta[r * n_out + j];
        dW[idx] = s;
    }
    if (idx < n_out) {
        float s = 0.0f;
        for (int r = 0; r < rows; r++) s += delta[r * n_out + idx];
        db[idx] = s;
    }
}

__global__ void update_weights(float *w, const float *g, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

static void make_data(void) {
    static float proto[OUTPUT_SIZE][INPUT_SIZE];
    for (int c = 0; c < OUTPUT_SIZE; c++)
        for (int i = 0; i < INPUT_SIZE; i++) proto[c][i] = frand() > 0.6f ? 1.0f : 0.0f;
    for (int n = 0; n < TRAIN_SIZE; n++) {
        int c = (int)(frand() * OUTPUT_SIZE);
        h_labels[n] = c;
        for (int i = 0; i < INPUT_SIZE; i++)
            h_images[n * INPUT_SIZE + i] = proto[c][i] + 0.8f * (frand() - 0.5f);
    }
}

static void init_weights(float *d_w, int n, int fan_in) {
    float *h = (float *)malloc(n * sizeof(float));
    float scale = sqrtf(2.0f / fan_in);
    for (int i = 0; i < n; i++) h[i] = (2.0f * frand() - 1.0f) * scale;
    CHECK(cudaMemcpy(d_w, h, n * sizeof(float), cudaMemcpyHostToDevice));
    free(h);
}

static void allocate(void) {
    CHECK(cudaMalloc((void **)&d_W1, INPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_b1, HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_W2, HIDDEN_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_b2, OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_dW1, INPUT_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_db1, HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_dW2, HIDDEN_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_db2, OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_X, BATCH_SIZE * INPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_hidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_output, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_dhidden, BATCH_SIZE * HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_doutput, BATCH_SIZE * OUTPUT_SIZE * sizeof(float)));
    CHECK(cudaMalloc((void **)&d_labels, BATCH_SIZE * sizeof(int)));
    init_weights(d_W1, INPUT_SIZE * HIDDEN_SIZE, INPUT_SIZE);
    init_weights(d_W2, HIDDEN_SIZE * OUTPUT_SIZE, HIDDEN_SIZE);
    CHECK(cudaMemset(d_b1, 0, HIDDEN_SIZE * sizeof(float)));
    CHECK(cudaMemset(d_b2, 0, OUTPUT_SIZE * sizeof(float)));
}

static void update(float *w, float *g, int n) {
    update_weights<<<(n + 127) / 128, 128>>>(w, g, n, LEARNING_RATE);
}

static void write_array(FILE *f, const float *d, int n) {
    float *h = (float *)malloc(n * sizeof(float));
    CHECK(cudaMemcpy(h, d, n * sizeof(float), cudaMemcpyDeviceToHost));
    fwrite(h, sizeof(float), n, f);
    free(h);
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "weights.bin";
    static float probs[BATCH_SIZE * OUTPUT_SIZE];
    make_data();
    allocate();
    int n1 = INPUT_SIZE * HIDDEN_SIZE, n2 = HIDDEN_SIZE * OUTPUT_SIZE;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float total_loss = 0.0f;
        int correct = 0;
        for (int start = 0; start < TRAIN_SIZE; start += BATCH_SIZE) {
            CHECK(cudaMemcpy(d_X, h_images + start * INPUT_SIZE,
                             BATCH_SIZE * INPUT_SIZE * sizeof(float), cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(d_labels, h_labels + start, BATCH_SIZE * sizeof(int), cudaMemcpyHostToDevice));
            forward_layer<<<BATCH_SIZE, 32>>>(d_W1, d_b1, d_X, d_hidden, INPUT_SIZE, HIDDEN_SIZE, 1);
            forward_layer<<<BATCH_SIZE, 32>>>(d_W2, d_b2, d_hidden, d_output, HIDDEN_SIZE, OUTPUT_SIZE, 0);
            softmax<<<1, BATCH_SIZE>>>(d_output, OUTPUT_SIZE, BATCH_SIZE);
            CHECK(cudaMemcpy(probs, d_output, sizeof(probs), cudaMemcpyDeviceToHost));
            for (int r = 0; r < BATCH_SIZE; r++) {
                int best = 0;
                for (int c = 1; c < OUTPUT_SIZE; c++)
                    if (probs[r * OUTPUT_SIZE + c] > probs[r * OUTPUT_SIZE + best]) best = c;
                correct += best == h_labels[start + r];
                total_loss -= logf(fmaxf(probs[r * OUTPUT_SIZE + h_labels[start + r]], 1e-7f));
            }
            output_delta<<<(BATCH_SIZE * OUTPUT_SIZE + 127) / 128, 128>>>(d_output, d_labels, d_doutput, OUTPUT_SIZE, BATCH_SIZE);
            hidden_delta<<<BATCH_SIZE, HIDDEN_SIZE>>>(d_W2, d_doutput, d_hidden, d_dhidden);
            weight_grad<<<(n2 + 127) / 128, 128>>>(d_hidden, d_doutput, d_dW2, d_db2, HIDDEN_SIZE, OUTPUT_SIZE, BATCH_SIZE);
            weight_grad<<<(n1 + 127) / 128, 128>>>(d_X, d_dhidden, d_dW1, d_db1, INPUT_SIZE, HIDDEN_SIZE, BATCH_SIZE);
            update(d_W1, d_dW1, n1);
            update(d_b1, d_db1, HIDDEN_SIZE);
            update(d_W2, d_dW2, n2);
            update(d_b2, d_db2, OUTPUT_SIZE);
            CHECK(cudaGetLastError());
        }
        printf("Epoch %d/%d  loss %.4f  accuracy %.2f%%\n", epoch + 1, EPOCHS, total_loss / TRAIN_SIZE,
               100.0f * correct / TRAIN_SIZE);
    }
    FILE *f = fopen(path, "wb");
    if (!f) {
        perror(path);
        return 1;
    }
    write_array(f, d_W1, n1);
    write_array(f, d_b1, HIDDEN_SIZE);
    write_array(f, d_W2, n2);
    write_array(f, d_b2, OUTPUT_SIZE);
    fclose(f);
    cudaFree(d_W1); cudaFree(d_b1); cudaFree(d_W2); cudaFree(d_b2);
    cudaFree(d_dW1); cudaFree(d_db1); cudaFree(d_dW2); cudaFree(d_db2);
    cudaFree(d_X); cudaFree(d_hidden); cudaFree(d_output);
    cudaFree(d_dhidden); cudaFree(d_doutput); cudaFree(d_labels);
    return 0;
}
