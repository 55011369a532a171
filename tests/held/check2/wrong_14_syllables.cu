/*
 * Predicts the next syllable of a made-up language from the three before it. One table of vectors serves as the input
 * embedding and, transposed, as the output layer. NAdam-like updates.
 */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>
#include <ddprun.h>

#define SYLLABLES 20
#define WIDTH     8
#define CONTEXT   3
#define TEXT      400
#define BATCH     32
#define ENTRIES   (SYLLABLES * WIDTH)

struct Language_model {
    float *embed, *d_embed, *momentum, *scale;   // [SYLLABLES][WIDTH]
    float *hidden, *d_hidden;                    // [BATCH][WIDTH]
    float *d_logits;                             // [BATCH][SYLLABLES]
    float *nats;                                 // [BATCH]
    int *text;                                   // [TEXT]
};

__global__ void embed_context(float *hidden, const float *embed, const int *text, int start)
{
    int position = blockIdx.x, w = threadIdx.x;
    const int *context = text + start + position;
    float s = 0.f;
    for (int c = 0; c < CONTEXT; ++c)
        s += embed[context[c] * WIDTH + w] * (1.f + 0.5f * c);
    hidden[position * WIDTH + w] = tanhf(s);
}

__global__ void predict(float *d_logits, float *nats, const float *hidden, const float *embed, const int *text, int start,
                        int positions)
{
    int p = threadIdx.x;
    if (p >= positions)
        return;
    float *z = d_logits + p * SYLLABLES, sum = 0.f;
    int next = text[start + p + CONTEXT];
    for (int s = 0; s < SYLLABLES; ++s) {
        z[s] = 0.f;
        for (int w = 0; w < WIDTH; ++w)
            z[s] += hidden[p * WIDTH + w] * embed[s * WIDTH + w];
        sum += expf(z[s]);
    }
    nats[p] = logf(sum) - z[next];
    for (int s = 0; s < SYLLABLES; ++s)
        z[s] = (expf(z[s]) / sum - (s == next)) / positions;
}

__global__ void output_backward(float *d_embed, const float *d_logits, const float *hidden, int positions)
{
    int s = blockIdx.x, w = threadIdx.x;
    float g = 0.f;
    for (int p = 0; p < positions; ++p)
        g += d_logits[p * SYLLABLES + s] * hidden[p * WIDTH + w];
    d_embed[s * WIDTH + w] = g;
}

__global__ void hidden_backward(float *d_hidden, const float *d_logits, const float *hidden, const float *embed)
{
    int p = blockIdx.x, w = threadIdx.x;
    float g = 0.f, h = hidden[p * WIDTH + w];
    for (int s = 0; s < SYLLABLES; ++s)
        g += d_logits[p * SYLLABLES + s] * embed[s * WIDTH + w];
    d_hidden[p * WIDTH + w] = g * (1.f - h * h);
}

__global__ void input_backward(float *d_embed, const float *d_hidden, const int *text, int start, int positions)
{
    int s = blockIdx.x, w = threadIdx.x;
    float g = 0.f;
    for (int p = 0; p < positions; ++p)
        for (int c = 0; c < CONTEXT; ++c)
            if (text[start + p + c] == s)
                g += d_hidden[p * WIDTH + w] * (1.f + 0.5f * c);
    d_embed[s * WIDTH + w] += g;
}

__global__ void nadam(float *w, float *m, float *v, const float *g, float rate, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
    float ahead = (0.9f * m[i] + 0.1f * g[i]) / (1.f - powf(0.9f, t + 1));
    w[i] -= rate * ahead / (sqrtf(v[i] / (1.f - powf(0.98f, t))) + 1e-3f);
}

static float *allocate(size_t n)
{
    void *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(float)) || cudaMemset(p, 0, n * sizeof(float)))
        exit((fprintf(stderr, "syllables: out of memory\n"), 3));
    return (float *)p;
}

static void forward(Language_model &m, int start, int positions)
{
    embed_context<<<positions, WIDTH>>>(m.hidden, m.embed, m.text, start);
    predict<<<1, BATCH>>>(m.d_logits, m.nats, m.hidden, m.embed, m.text, start, positions);
}

static void backward(Language_model &m, int start, int positions)
{
    output_backward<<<SYLLABLES, WIDTH>>>(m.d_embed, m.d_logits, m.hidden, positions);
    hidden_backward<<<positions, WIDTH>>>(m.d_hidden, m.d_logits, m.hidden, m.embed);
    DDP_STEP(0);
    input_backward<<<SYLLABLES, WIDTH>>>(m.d_embed, m.d_hidden, m.text, start, positions);
}

int main()
{
    Language_model m = {allocate(ENTRIES), allocate(ENTRIES), allocate(ENTRIES), allocate(ENTRIES), allocate(BATCH * WIDTH),
                        allocate(BATCH * WIDTH), allocate(BATCH * SYLLABLES), allocate(BATCH), (int *)allocate(TEXT)};
    static int text[TEXT];
    float embed[ENTRIES], nats[BATCH];
    unsigned r = 17;
    for (int i = 0; i < TEXT; ++i) {
        r = r * 69069u + 1u;
        text[i] = i < 2 || r >> 29 == 0 ? (int)(r >> 16) % SYLLABLES : (3 * text[i - 1] + text[i - 2] + 1) % SYLLABLES;
    }
    for (int i = 0; i < ENTRIES; ++i)
        embed[i] = 0.4f * sinf(12.9898f * i + 1.f);
    cudaMemcpy(m.text, text, sizeof text, cudaMemcpyHostToDevice);
    cudaMemcpy(m.embed, embed, sizeof embed, cudaMemcpyHostToDevice);
    DDP_PARAMETER(m.embed, ENTRIES, DDP_FLOAT32);
    DDP_GRADIENT(m.d_embed, ENTRIES, DDP_FLOAT32);
    for (int step = 1; step <= 20; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int start = (step - 1) * BATCH % (TEXT - BATCH - CONTEXT) + (int)first;
        forward(m, start, (int)count);
        backward(m, start, (int)count);
        nadam<<<SYLLABLES, WIDTH>>>(m.embed, m.momentum, m.scale, m.d_embed, 0.04f, step);
        if (cudaMemcpy(nats, m.nats, count * sizeof(float), cudaMemcpyDeviceToHost))
            return 1;
        float mean = 0.f;
        for (size_t i = 0; i < count; ++i)
            mean += nats[i] / count;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0)
            printf("step %d: %.4f nats\n", step, mean);
    }
    return 0;
}
