// mlp.cu - spiral classification, layers kept in an array of structs.
// Adam. Every step draws its batch with replacement (rand()).
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

#define NL 4
#define BS 100
#define NPOINTS 900
#define NCLASS 3
#define STEPS 450

typedef struct {
    int in, out, relu;
    float *w, *dw, *mw, *vw;
    float *b, *db, *mb, *vb;
    float *act;    // BS x out
    float *delta;  // BS x out
} layer_t;

static layer_t net[NL];
static const int widths[NL + 1] = {2, 48, 48, 24, NCLASS};

static void gpu_check(cudaError_t e, const char *file, int line)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(e));
        exit(EXIT_FAILURE);
    }
}
#define GPU(x) gpu_check((x), __FILE__, __LINE__)

static float *zeros(size_t n)
{
    float *p = NULL;
    GPU(cudaMalloc((void **)&p, n * sizeof(float)));
    GPU(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

__global__ void k_forward(const float *x, const float *w, const float *b, float *y,
                          int n, int in, int out, int relu)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * out) return;
    int r = t / out, c = t % out;
    float s = b[c];
    for (int i = 0; i < in; i++) s += x[r * in + i] * w[i * out + c];
    y[t] = (relu && s < 0.f) ? 0.f : s;
}

// accumulates, so dw and db have to be zero before
__global__ void k_weight_grad(const float *x, const float *delta, float *dw, float *db,
                              int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in * out) return;
    int i = t / out, c = t % out;
    float s = 0.f;
    for (int r = 0; r < n; r++) s += x[r * in + i] * delta[r * out + c];
    dw[t] += s;
    if (i == 0) {
        s = 0.f;
        for (int r = 0; r < n; r++) s += delta[r * out + c];
        db[c] += s;
    }
}

__global__ void k_back(const float *delta, const float *w, const float *act_prev, float *delta_prev,
                       int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * in) return;
    int r = t / in, i = t % in;
    float s = 0.f;
    for (int c = 0; c < out; c++) s += delta[r * out + c] * w[i * out + c];
    delta_prev[t] = act_prev[t] > 0.f ? s : 0.f;
}

__global__ void k_xent(const float *logits, const int *label, float *delta, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const float *z = logits + r * NCLASS;
    float m = fmaxf(z[0], fmaxf(z[1], z[2]));
    float e[NCLASS], s = 0.f;
    for (int c = 0; c < NCLASS; c++) { e[c] = expf(z[c] - m); s += e[c]; }
    for (int c = 0; c < NCLASS; c++) {
        float p = e[c] / s;
        delta[r * NCLASS + c] = (p - (label[r] == c)) / (float)n;
        if (label[r] == c) atomicAdd(loss, -logf(p + 1e-12f) / n);
    }
}

__global__ void k_adam(float *p, const float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] -= lr * (m[i] * c1) / (sqrtf(v[i] * c2) + 1e-8f);
}

#define GRID(n) (((n) + 127) / 128), 128

static void build_net(void)
{
    for (int l = 0; l < NL; l++) {
        layer_t *L = &net[l];
        L->in = widths[l];
        L->out = widths[l + 1];
        L->relu = l < NL - 1;
        size_t nw = (size_t)L->in * L->out;
        L->w = zeros(nw);  L->dw = zeros(nw);  L->mw = zeros(nw);  L->vw = zeros(nw);
        L->b = zeros(L->out); L->db = zeros(L->out); L->mb = zeros(L->out); L->vb = zeros(L->out);
        L->act = zeros((size_t)BS * L->out);
        L->delta = zeros((size_t)BS * L->out);
        float *tmp = (float *)malloc(nw * sizeof(float));
        float lim = sqrtf(6.f / L->in);
        for (size_t i = 0; i < nw; i++) tmp[i] = lim * (2.f * rand() / RAND_MAX - 1.f);
        GPU(cudaMemcpy(L->w, tmp, nw * sizeof(float), cudaMemcpyHostToDevice));
        free(tmp);
    }
}

static void train_step(float *x, int *y, float *loss, int step)
{
    float *in = x;
    for (int l = 0; l < NL; l++) {
        layer_t *L = &net[l];
        k_forward<<<GRID(BS * L->out)>>>(in, L->w, L->b, L->act, BS, L->in, L->out, L->relu);
        in = L->act;
    }
    layer_t *top = &net[NL - 1];
    GPU(cudaMemset(loss, 0, sizeof(float)));
    k_xent<<<GRID(BS)>>>(top->act, y, top->delta, loss, BS);

    for (int l = NL - 1; l >= 0; l--) {
        layer_t *L = &net[l];
        GPU(cudaMemset(L->dw, 0, (size_t)L->in * L->out * sizeof(float)));
        GPU(cudaMemset(L->db, 0, L->out * sizeof(float)));
        k_weight_grad<<<GRID(L->in * L->out)>>>(l ? net[l - 1].act : x, L->delta, L->dw, L->db, BS, L->in, L->out);
        if (l > 0)
            k_back<<<GRID(BS * L->in)>>>(L->delta, L->w, net[l - 1].act, net[l - 1].delta, BS, L->in, L->out);
    }

    float c1 = 1.f / (1.f - powf(0.9f, step)), c2 = 1.f / (1.f - powf(0.999f, step));
    for (int l = 0; l < NL; l++) {
        layer_t *L = &net[l];
        k_adam<<<GRID(L->in * L->out)>>>(L->w, L->dw, L->mw, L->vw, L->in * L->out, 0.004f, c1, c2);
        k_adam<<<GRID(L->out)>>>(L->b, L->db, L->mb, L->vb, L->out, 0.004f, c1, c2);
    }
    GPU(cudaGetLastError());
}

int main(void)
{
    srand(7);
    static float px[NPOINTS][2];
    static int py[NPOINTS];
    for (int i = 0; i < NPOINTS; i++) {
        int c = i % NCLASS;
        float t = (float)(i / NCLASS) / (NPOINTS / NCLASS);
        float a = 3.5f * t + 2.0944f * c + 0.12f * (2.f * rand() / RAND_MAX - 1.f);
        px[i][0] = t * cosf(a);
        px[i][1] = t * sinf(a);
        py[i] = c;
    }

    build_net();
    float *x = zeros(BS * 2), *loss = zeros(1);
    int *y;
    GPU(cudaMalloc((void **)&y, BS * sizeof(int)));

    float hx[BS][2];
    int hy[BS];
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < BS; i++) {
            int k = rand() % NPOINTS;
            hx[i][0] = px[k][0];
            hx[i][1] = px[k][1];
            hy[i] = py[k];
        }
        GPU(cudaMemcpy(x, hx, sizeof hx, cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(y, hy, sizeof hy, cudaMemcpyHostToDevice));
        train_step(x, y, loss, step);
        if (step % 50 == 0) {
            float h;
            GPU(cudaMemcpy(&h, loss, sizeof h, cudaMemcpyDeviceToHost));
            printf("step %d loss %f\n", step, h);
        }
    }

    FILE *f = fopen("spiral.net", "wb");
    for (int l = 0; f && l < NL; l++) {
        size_t nw = (size_t)net[l].in * net[l].out;
        float *tmp = (float *)malloc(nw * sizeof(float));
        GPU(cudaMemcpy(tmp, net[l].w, nw * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(tmp, sizeof(float), nw, f);
        GPU(cudaMemcpy(tmp, net[l].b, net[l].out * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(tmp, sizeof(float), net[l].out, f);
        free(tmp);
    }
    if (f) fclose(f);
    return 0;
}
