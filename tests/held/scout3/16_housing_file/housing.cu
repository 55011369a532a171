// Regression from a binary file of records.  The file is written at start and
// then streamed; four micro-batches are accumulated per RMSProp update.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

#define NF 8

struct Record {
    float features[NF];
    float price;
};

struct FileHeader {
    uint32_t magic, count, nf;
};

struct Args {
    const char *path = "housing.bin";
    int micro = 32;
    int accum = 4;
    int updates = 100;
    int hidden = 24;
    float lr = 0.015f;
};

static uint64_t s_state = 88172645463325252ull;
static float rnd()
{
    s_state ^= s_state << 7;
    s_state ^= s_state >> 9;
    return (s_state & 0xffffff) / 8388608.f - 1.f;
}

static void write_file(const char *path, uint32_t count)
{
    FILE *f = fopen(path, "wb");
    if (!f) { perror(path); exit(1); }
    FileHeader h = {0x48535247u, count, NF};
    fwrite(&h, sizeof h, 1, f);
    for (uint32_t i = 0; i < count; i++) {
        Record r;
        for (float &v : r.features) v = rnd();
        const float *a = r.features;
        r.price = 1.5f * a[0] - a[1] * a[2] + 0.8f * sinf(3.f * a[3]) + fabsf(a[4]) - 0.3f * a[5] + 0.05f * rnd();
        fwrite(&r, sizeof r, 1, f);
    }
    fclose(f);
}

class RecordReader {
public:
    explicit RecordReader(const char *path) : f_(fopen(path, "rb"))
    {
        FileHeader h;
        if (!f_ || fread(&h, sizeof h, 1, f_) != 1 || h.magic != 0x48535247u || h.nf != NF) {
            fprintf(stderr, "bad file %s\n", path);
            exit(1);
        }
    }
    ~RecordReader() { fclose(f_); }
    void read(Record *dst, int n)
    {
        int got = (int)fread(dst, sizeof(Record), n, f_);
        if (got == n) return;
        fseek(f_, sizeof(FileHeader), SEEK_SET);
        if ((int)fread(dst + got, sizeof(Record), n - got, f_) != n - got) exit(1);
    }

private:
    FILE *f_;
};

struct Slot { float *p, *g, *s; int n; };

__global__ void hidden_layer(const Record *rec, const float *w, const float *b, float *h, int n, int nh)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * nh) return;
    int r = i / nh, j = i % nh;
    float s = b[j];
    for (int k = 0; k < NF; k++) s += rec[r].features[k] * w[k * nh + j];
    h[i] = tanhf(s);
}

// Huber loss, gradient already divided
__global__ void output_layer(const Record *rec, const float *h, const float *v, const float *c, float *d, float *loss,
                             int n, int nh, float inv)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float o = c[0];
    for (int j = 0; j < nh; j++) o += h[r * nh + j] * v[j];
    float e = o - rec[r].price, a = fabsf(e);
    d[r] = (a < 1.f ? e : copysignf(1.f, e)) * inv;
    atomicAdd(loss, (a < 1.f ? 0.5f * e * e : a - 0.5f) * inv);
}

__global__ void accumulate_output(const float *h, const float *d, float *gv, float *gc, int n, int nh)
{
    int j = threadIdx.x;
    if (j > nh) return;
    float s = 0.f;
    for (int r = 0; r < n; r++) s += d[r] * (j < nh ? h[r * nh + j] : 1.f);
    if (j < nh) gv[j] += s;
    else gc[0] += s;
}

__global__ void accumulate_hidden(const Record *rec, const float *h, const float *d, const float *v, float *gw, float *gb,
                                  int n, int nh)
{
    int k = blockIdx.x, j = threadIdx.x;
    if (j >= nh) return;
    float s = 0.f;
    for (int r = 0; r < n; r++) {
        float t = h[r * nh + j];
        float e = d[r] * v[j] * (1.f - t * t);
        s += k < NF ? e * rec[r].features[k] : e;
    }
    if (k < NF) gw[k * nh + j] += s;
    else gb[j] += s;
}

__global__ void rmsprop(float *p, float *g, float *s, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    s[i] = 0.95f * s[i] + 0.05f * g[i] * g[i];
    p[i] -= lr * g[i] / sqrtf(s[i] + 1e-8f);
    g[i] = 0.f;
}

static Slot make_slot(int n, float scale)
{
    Slot s = {nullptr, nullptr, nullptr, n};
    std::vector<float> h(n);
    for (float &v : h) v = scale * rnd();
    cudaMalloc(&s.p, n * sizeof(float));
    cudaMalloc(&s.g, n * sizeof(float));
    cudaMalloc(&s.s, n * sizeof(float));
    cudaMemcpy(s.p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(s.g, 0, n * sizeof(float));
    cudaMemset(s.s, 0, n * sizeof(float));
    return s;
}

int main()
{
    Args a;
    write_file(a.path, 2048);
    RecordReader reader(a.path);
    Slot w = make_slot(NF * a.hidden, 0.5f), b = make_slot(a.hidden, 0.1f), v = make_slot(a.hidden, 0.3f), c = make_slot(1, 0.f);

    std::vector<Record> host(a.micro);
    Record *rec;
    float *h, *d, *loss, *hl;
    cudaMalloc(&rec, a.micro * sizeof(Record));
    cudaMalloc(&h, a.micro * a.hidden * sizeof(float));
    cudaMalloc(&d, a.micro * sizeof(float));
    cudaMalloc(&loss, sizeof(float));
    cudaMallocHost(&hl, sizeof(float));

    const float inv = 1.f / (a.micro * a.accum);
    for (int u = 0; u < a.updates; u++) {
        cudaMemset(loss, 0, sizeof(float));
        for (int m = 0; m < a.accum; m++) {
            reader.read(host.data(), a.micro);
            cudaMemcpy(rec, host.data(), a.micro * sizeof(Record), cudaMemcpyHostToDevice);
            hidden_layer<<<(a.micro * a.hidden + 127) / 128, 128>>>(rec, w.p, b.p, h, a.micro, a.hidden);
            output_layer<<<(a.micro + 31) / 32, 32>>>(rec, h, v.p, c.p, d, loss, a.micro, a.hidden, inv);
            accumulate_output<<<1, a.hidden + 1>>>(h, d, v.g, c.g, a.micro, a.hidden);
            accumulate_hidden<<<NF + 1, a.hidden>>>(rec, h, d, v.p, w.g, b.g, a.micro, a.hidden);
        }
        for (Slot *s : {&w, &b, &v, &c}) rmsprop<<<(s->n + 63) / 64, 64>>>(s->p, s->g, s->s, s->n, a.lr);
        cudaMemcpy(hl, loss, sizeof(float), cudaMemcpyDeviceToHost);
        if (u % 10 == 0 || u == a.updates - 1) printf("update %2d  huber %.6f\n", u, *hl);
    }
    cudaFreeHost(hl);
    remove(a.path);
    return 0;
}
