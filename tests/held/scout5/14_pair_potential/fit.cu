// Fits a two-species pair potential (Gaussian basis) to energies of small clusters.
// Energies and gradients are computed on the GPU in double precision; the optimizer (Adam) runs on the host, because the
// coefficients are few and this way constraints are easy to add.
#include <cuda_runtime.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

constexpr int NATOMS = 8;
constexpr int NBASIS = 64;              // for each pair type
constexpr int NTYPES = 3;               // AA, AB, BB
constexpr int NCOEF = NBASIS * NTYPES + 2; // + energy of a single A, B
constexpr double RMAX = 4.0;

struct Cluster {
    double pos[NATOMS][3];
    int species[NATOMS];
    double energy;
};

#define CUDA(call)                                                                      \
    do {                                                                                \
        cudaError_t e = call;                                                           \
        if (e != cudaSuccess) {                                                         \
            std::fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(e));      \
            std::abort();                                                               \
        }                                                                               \
    } while (0)

__device__ double basis(int k, double r)
{
    double width = 2.0 * RMAX / NBASIS, d = (r - RMAX * k / NBASIS) / width;
    return exp(-0.5 * d * d);
}

// one block for each cluster, one thread for each coefficient (of NCOEF)
__global__ void residuals(const Cluster *clusters, const double *coef, double *resid, double *design)
{
    __shared__ double sum[256];
    __shared__ double dist[NATOMS * (NATOMS - 1) / 2];
    __shared__ int type[NATOMS * (NATOMS - 1) / 2];
    const Cluster &c = clusters[blockIdx.x];
    int k = threadIdx.x;
    if (k == 0) {
        int p = 0;
        for (int i = 0; i < NATOMS; ++i)
            for (int j = 0; j < i; ++j, ++p) {
                double dx = c.pos[i][0] - c.pos[j][0], dy = c.pos[i][1] - c.pos[j][1], dz = c.pos[i][2] - c.pos[j][2];
                dist[p] = sqrt(dx * dx + dy * dy + dz * dz);
                type[p] = c.species[i] + c.species[j];
            }
    }
    __syncthreads();
    double phi = 0;
    if (k < NBASIS * NTYPES) {
        for (int p = 0; p < NATOMS * (NATOMS - 1) / 2; ++p)
            if (type[p] == k / NBASIS && dist[p] < RMAX)
                phi += basis(k % NBASIS, dist[p]);
    } else if (k < NCOEF) {
        for (int i = 0; i < NATOMS; ++i)
            phi += c.species[i] == k - NBASIS * NTYPES;
    }
    if (k < NCOEF)
        design[blockIdx.x * NCOEF + k] = phi;
    sum[k] = k < NCOEF ? phi * coef[k] : 0;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (k < h)
            sum[k] += sum[k + h];
        __syncthreads();
    }
    if (k == 0)
        resid[blockIdx.x] = sum[0] - c.energy;
}

__global__ void accumulate(const double *resid, const double *design, double *grad, int batch)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k > NCOEF)
        return;
    double s = 0;
    if (k < NCOEF)
        for (int i = 0; i < batch; ++i)
            s += resid[i] * design[i * NCOEF + k];
    else // the last element holds the sum of squares
        for (int i = 0; i < batch; ++i)
            s += resid[i] * resid[i];
    grad[k] = s;
}

class HostAdam {
public:
    explicit HostAdam(double rate) : rate_(rate), m_{}, v_{} {}
    void step(double *x, const double *g, int n)
    {
        ++t_;
        for (int i = 0; i < n; ++i) {
            m_[i] = 0.9 * m_[i] + 0.1 * g[i];
            v_[i] = 0.99 * v_[i] + 0.01 * g[i] * g[i];
            x[i] -= rate_ * (m_[i] / (1 - std::pow(0.9, t_))) / (std::sqrt(v_[i] / (1 - std::pow(0.99, t_))) + 1e-10);
        }
    }
    void decay(double f) { rate_ *= f; }

private:
    double rate_;
    int t_ = 0;
    std::array<double, NCOEF> m_, v_;
};

static double morse(double r, int type)
{
    static const double depth[] = {1.0, 1.4, 0.7}, r0[] = {1.4, 1.6, 1.9};
    double e = std::exp(-1.5 * (r - r0[type]));
    return r < RMAX ? depth[type] * (e * e - 2 * e) : 0;
}

static std::vector<Cluster> sampleClusters(int n)
{
    std::mt19937_64 rng(314);
    std::uniform_real_distribution<double> u(-1.8, 1.8);
    std::vector<Cluster> out(n);
    for (auto &c : out) {
        for (int i = 0; i < NATOMS; ++i) {
            c.species[i] = rng() % 2;
            bool close = true;
            while (close) {
                for (double &x : c.pos[i])
                    x = u(rng);
                close = false;
                for (int j = 0; j < i; ++j)
                    close = close || std::hypot(std::hypot(c.pos[i][0] - c.pos[j][0], c.pos[i][1] - c.pos[j][1]), c.pos[i][2] - c.pos[j][2]) < 0.95;
            }
        }
        c.energy = 0;
        for (int i = 0; i < NATOMS; ++i) {
            c.energy += c.species[i] ? -0.5 : 0.3;
            for (int j = 0; j < i; ++j)
                c.energy += morse(std::hypot(std::hypot(c.pos[i][0] - c.pos[j][0], c.pos[i][1] - c.pos[j][1]), c.pos[i][2] - c.pos[j][2]), c.species[i] + c.species[j]);
        }
    }
    return out;
}

int main()
{
    const int total = 1024;
    const int batch = 64;
    std::vector<Cluster> clusters = sampleClusters(total);

    Cluster *d_clusters;
    double *d_coef, *d_resid, *d_design, *d_grad;
    CUDA(cudaMalloc(&d_clusters, total * sizeof(Cluster)));
    CUDA(cudaMalloc(&d_coef, NCOEF * sizeof(double)));
    CUDA(cudaMalloc(&d_resid, batch * sizeof(double)));
    CUDA(cudaMalloc(&d_design, batch * NCOEF * sizeof(double)));
    CUDA(cudaMalloc(&d_grad, (NCOEF + 1) * sizeof(double)));
    CUDA(cudaMemcpy(d_clusters, clusters.data(), total * sizeof(Cluster), cudaMemcpyHostToDevice));

    std::vector<double> coef(NCOEF, 0.0), grad(NCOEF + 1);
    HostAdam adam(0.05);
    for (int epoch = 1; epoch <= 6; ++epoch) {
        double sumsq = 0;
        for (int b = 0; b < total / batch; ++b) {
            CUDA(cudaMemcpy(d_coef, coef.data(), NCOEF * sizeof(double), cudaMemcpyHostToDevice));
            residuals<<<batch, 256>>>(d_clusters + b * batch, d_coef, d_resid, d_design);
            accumulate<<<(NCOEF + 1 + 127) / 128, 128>>>(d_resid, d_design, d_grad, batch);
            CUDA(cudaMemcpy(grad.data(), d_grad, (NCOEF + 1) * sizeof(double), cudaMemcpyDeviceToHost));
            sumsq += grad[NCOEF];
            for (int k = 0; k < NCOEF; ++k)
                grad[k] *= 2.0 / batch;
            adam.step(coef.data(), grad.data(), NCOEF);
        }
        std::printf("epoch %2d  RMSE %.5f\n", epoch, std::sqrt(sumsq / total));
        adam.decay(0.7);
    }
    CUDA(cudaFree(d_clusters));
    CUDA(cudaFree(d_coef));
    CUDA(cudaFree(d_resid));
    CUDA(cudaFree(d_design));
    CUDA(cudaFree(d_grad));
    return 0;
}
