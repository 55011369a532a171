// Fits pair potentials of a three-component fluid to energies of small clusters. The potential of each of the six pairs
// of species is a sum of Gaussians in the distance; the device computes energies and derivatives, the host minimises.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define SAFE(call)                                                                        \
    {                                                                                     \
        cudaError_t rc = (call);                                                          \
        if (rc != cudaSuccess) {                                                          \
            fprintf(stderr, "%s (line %d)\n", cudaGetErrorString(rc), __LINE__);          \
            exit(1);                                                                      \
        }                                                                                 \
    }

namespace phys {
const int kAtoms = 10;
const int kSpecies = 3;
const int kPairs = kSpecies * (kSpecies + 1) / 2;
const int kBasis = 40;
const int kCoef = kPairs * kBasis;
const double kCutoff = 4.0;
} // namespace phys
using namespace phys;

struct Clusters {   // structure of arrays, kAtoms entries for each cluster
    std::vector<double> x, y, z, energy;
    std::vector<unsigned char> species;
    int count = 0;
};

__host__ __device__ inline int pairIndex(int a, int b)
{
    if (a > b) {
        int t = a;
        a = b;
        b = t;
    }
    return a * kSpecies - a * (a - 1) / 2 + (b - a);
}

__host__ __device__ inline double basis(int k, double r)
{
    const double u = (r - kCutoff * k / (kBasis - 1)) / 0.25;
    const double fc = 0.5 * (cos(3.14159265358979 * r / kCutoff) + 1.0);
    return exp(-0.5 * u * u) * fc;
}

// derivative of each cluster's energy with respect to the coefficients; a block for each cluster
__global__ void descriptors(const double *x, const double *y, const double *z, const unsigned char *species, double *G)
{
    const int base = blockIdx.x * kAtoms;
    for (int c = threadIdx.x; c < kCoef; c += blockDim.x) {
        double s = 0;
        for (int i = 0; i < kAtoms; ++i)
            for (int j = i + 1; j < kAtoms; ++j) {
                if (pairIndex(species[base + i], species[base + j]) != c / kBasis)
                    continue;
                const double dx = x[base + i] - x[base + j], dy = y[base + i] - y[base + j], dz = z[base + i] - z[base + j];
                const double r = sqrt(dx * dx + dy * dy + dz * dz);
                if (r < kCutoff)
                    s += basis(c % kBasis, r);
            }
        G[blockIdx.x * kCoef + c] = s;
    }
}

__global__ void residuals(const double *G, const double *coef, const double *energy, double *res, int n)
{
    const int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= n)
        return;
    double e = 0;
    for (int c = 0; c < kCoef; ++c)
        e += G[b * kCoef + c] * coef[c];
    res[b] = e - energy[b];
}

__global__ void gradient(const double *G, const double *res, double *grad, int n)
{
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= kCoef)
        return;
    double s = 0;
    for (int b = 0; b < n; ++b)
        s += 2.0 * res[b] * G[b * kCoef + c];
    grad[c] = s;
}

static double truePotential(int pair, double r)
{
    const double depth[kPairs] = {1.0, 0.6, 1.4, 0.8, 0.5, 1.1}, r0[kPairs] = {1.1, 1.25, 1.0, 1.35, 1.2, 1.15};
    const double q = exp(-2.0 * (r - r0[pair]));
    return r < kCutoff ? depth[pair] * (q * q - 2 * q) * 0.5 * (cos(3.14159265358979 * r / kCutoff) + 1.0) : 0.0;
}

static Clusters sample(int n, unsigned seed)
{
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<double> u(0.0, 3.2);
    Clusters s;
    s.count = n;
    for (int c = 0; c < n; ++c) {
        const int base = c * kAtoms;
        for (int i = 0; i < kAtoms; ++i) {
            double px, py, pz;
            for (bool clash = true; clash;) {
                px = u(rng), py = u(rng), pz = u(rng), clash = false;
                for (int j = 0; j < i; ++j)
                    clash |= std::hypot(std::hypot(px - s.x[base + j], py - s.y[base + j]), pz - s.z[base + j]) < 0.75;
            }
            s.x.push_back(px);
            s.y.push_back(py);
            s.z.push_back(pz);
            s.species.push_back(rng() % kSpecies);
        }
        double e = 0;
        for (int i = 0; i < kAtoms; ++i)
            for (int j = i + 1; j < kAtoms; ++j)
                e += truePotential(pairIndex(s.species[base + i], s.species[base + j]),
                                   std::hypot(std::hypot(s.x[base + i] - s.x[base + j], s.y[base + i] - s.y[base + j]),
                                              s.z[base + i] - s.z[base + j]));
        s.energy.push_back(e);
    }
    return s;
}

int main()
{
    const int nTrain = 640, nBatch = 80, nEpochs = 15;
    const double rate = 0.02, beta1 = 0.9, beta2 = 0.99;
    Clusters train = sample(nTrain, 5);

    double *x, *y, *z, *energy, *G, *res, *dCoef, *dGrad;
    unsigned char *species;
    SAFE(cudaMalloc(&x, nBatch * kAtoms * sizeof(double)));
    SAFE(cudaMalloc(&y, nBatch * kAtoms * sizeof(double)));
    SAFE(cudaMalloc(&z, nBatch * kAtoms * sizeof(double)));
    SAFE(cudaMalloc(&species, nBatch * kAtoms));
    SAFE(cudaMalloc(&energy, nBatch * sizeof(double)));
    SAFE(cudaMalloc(&G, nBatch * kCoef * sizeof(double)));
    SAFE(cudaMalloc(&res, nBatch * sizeof(double)));
    SAFE(cudaMalloc(&dCoef, kCoef * sizeof(double)));
    SAFE(cudaMalloc(&dGrad, kCoef * sizeof(double)));

    std::vector<double> coef(kCoef, 0.0), grad(kCoef), m(kCoef, 0.0), v(kCoef, 0.0), r(nBatch);
    int t = 0;
    for (int epoch = 1; epoch <= nEpochs; ++epoch) {
        double sum = 0;
        for (int first = 0; first < nTrain; first += nBatch) {
            const size_t atom = (size_t)first * kAtoms, bytes = nBatch * kAtoms * sizeof(double);
            SAFE(cudaMemcpy(x, train.x.data() + atom, bytes, cudaMemcpyHostToDevice));
            SAFE(cudaMemcpy(y, train.y.data() + atom, bytes, cudaMemcpyHostToDevice));
            SAFE(cudaMemcpy(z, train.z.data() + atom, bytes, cudaMemcpyHostToDevice));
            SAFE(cudaMemcpy(species, train.species.data() + atom, nBatch * kAtoms, cudaMemcpyHostToDevice));
            SAFE(cudaMemcpy(energy, train.energy.data() + first, nBatch * sizeof(double), cudaMemcpyHostToDevice));
            SAFE(cudaMemcpy(dCoef, coef.data(), kCoef * sizeof(double), cudaMemcpyHostToDevice));

            descriptors<<<nBatch, 64>>>(x, y, z, species, G);
            residuals<<<(nBatch + 31) / 32, 32>>>(G, dCoef, energy, res, nBatch);
            gradient<<<(kCoef + 63) / 64, 64>>>(G, res, dGrad, nBatch);

            SAFE(cudaMemcpy(grad.data(), dGrad, kCoef * sizeof(double), cudaMemcpyDeviceToHost));
            SAFE(cudaMemcpy(r.data(), res, nBatch * sizeof(double), cudaMemcpyDeviceToHost));
            ++t;
            for (int c = 0; c < kCoef; ++c) {
                const double g = grad[c] / nBatch;
                m[c] = beta1 * m[c] + (1 - beta1) * g;
                v[c] = beta2 * v[c] + (1 - beta2) * g * g;
                coef[c] -= rate * (m[c] / (1 - std::pow(beta1, t))) / (std::sqrt(v[c] / (1 - std::pow(beta2, t))) + 1e-8);
            }
            for (double d : r)
                sum += d * d;
        }
        printf("epoch %2d  rms error of the energy %.5f\n", epoch, std::sqrt(sum / nTrain));
    }

    printf("   r   ");
    for (int p = 0; p < kPairs; ++p)
        printf("   fit %d  true %d", p, p);
    printf("\n");
    for (double d = 1.0; d < 3.2; d += 0.5) {
        printf("%.2f   ", d);
        for (int p = 0; p < kPairs; ++p) {
            double e = 0;
            for (int k = 0; k < kBasis; ++k)
                e += coef[p * kBasis + k] * basis(k, d);
            printf(" %7.3f %7.3f", e, truePotential(p, d));
        }
        printf("\n");
    }
    return 0;
}
