// Fits pair potentials of a two-component cluster (AA, AB, BB) to reference energies by stochastic gradient descent.
//   E = sum_{i<j} sum_k c[species(i, j)][k] * phi_k(r_ij),  phi_k: Gaussians on a grid of distances
// The device computes the loss and its gradient, the host does the Adam step on 240 coefficients.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

constexpr int ATOMS = 10;
constexpr int BASIS = 80;
constexpr int NCOEF = 3 * BASIS;
constexpr double R_MIN = 0.8, R_MAX = 4.0, WIDTH = 0.12;

struct Configuration {
    double pos[ATOMS][3];
    int type[ATOMS];
    double energy;
};

static double drand()
{
    static unsigned long long s = 42;
    s = s * 6364136223846793005ULL + 1442695040888963407ULL;
    return (double)(s >> 11) / 9007199254740992.0;
}

static double reference(int species, double r)
{
    static const double depth[3] = {1.0, 1.5, 0.6}, length[3] = {1.3, 1.4, 1.6};
    double x = exp(-1.2 * (r - length[species]));     // Morse
    return depth[species] * (x * x - 2 * x);
}

static Configuration random_cluster()
{
    Configuration c;
    c.energy = 0;
    for (int i = 0; i < ATOMS; i++) {
        bool ok;
        do {
            ok = true;
            for (int k = 0; k < 3; k++)
                c.pos[i][k] = 2.4 * drand();
            for (int j = 0; j < i; j++) {
                double d2 = 0;
                for (int k = 0; k < 3; k++)
                    d2 += (c.pos[i][k] - c.pos[j][k]) * (c.pos[i][k] - c.pos[j][k]);
                if (d2 < 0.85 * 0.85)
                    ok = false;
            }
        } while (!ok);
        c.type[i] = drand() < 0.5;
        for (int j = 0; j < i; j++) {
            double d2 = 0;
            for (int k = 0; k < 3; k++)
                d2 += (c.pos[i][k] - c.pos[j][k]) * (c.pos[i][k] - c.pos[j][k]);
            c.energy += reference(c.type[i] + c.type[j], sqrt(d2));
        }
    }
    return c;
}

// One block for one configuration. out[config][0..NCOEF) = d (E - E_ref)^2 / d c, out[config][NCOEF] = (E - E_ref)^2
__global__ void config_gradient(const Configuration *all, const int *which, const double *coef, double *out)
{
    __shared__ double descriptor[NCOEF];
    __shared__ double residual;
    const Configuration &c = all[which[blockIdx.x]];
    for (int k = threadIdx.x; k < NCOEF; k += blockDim.x) {
        int species = k / BASIS;
        double center = R_MIN + (R_MAX - R_MIN) * (k % BASIS) / (BASIS - 1);
        double s = 0;
        for (int i = 0; i < ATOMS; i++)
            for (int j = 0; j < i; j++) {
                if (c.type[i] + c.type[j] != species)
                    continue;
                double dx = c.pos[i][0] - c.pos[j][0], dy = c.pos[i][1] - c.pos[j][1], dz = c.pos[i][2] - c.pos[j][2];
                double d = (sqrt(dx * dx + dy * dy + dz * dz) - center) / WIDTH;
                if (d * d < 12)
                    s += exp(-0.5 * d * d);
            }
        descriptor[k] = s;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        double e = 0;
        for (int k = 0; k < NCOEF; k++)
            e += coef[k] * descriptor[k];
        residual = e - c.energy;
    }
    __syncthreads();
    double *o = out + (size_t)blockIdx.x * (NCOEF + 1);
    for (int k = threadIdx.x; k < NCOEF; k += blockDim.x)
        o[k] = 2 * residual * descriptor[k];
    if (threadIdx.x == 0)
        o[NCOEF] = residual * residual;
}

__global__ void sum_configs(const double *out, double *total, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k > NCOEF)
        return;
    double s = 0;
    for (int i = 0; i < n; i++)
        s += out[(size_t)i * (NCOEF + 1) + k];
    total[k] = s;
}

int main()
{
    const int n_train = 600, n_test = 100, batch = 50, steps = 150;
    std::vector<Configuration> configs;
    for (int i = 0; i < n_train + n_test; i++)
        configs.push_back(random_cluster());

    Configuration *d_configs;
    int *d_which;
    double *d_coef, *d_out, *d_total;
    cudaMalloc(&d_configs, configs.size() * sizeof(Configuration));
    cudaMalloc(&d_which, 128 * sizeof(int));
    cudaMalloc(&d_coef, NCOEF * sizeof(double));
    cudaMalloc(&d_out, 128 * (NCOEF + 1) * sizeof(double));
    cudaMalloc(&d_total, (NCOEF + 1) * sizeof(double));
    cudaMemcpy(d_configs, configs.data(), configs.size() * sizeof(Configuration), cudaMemcpyHostToDevice);

    std::vector<double> coef(NCOEF, 0.0), total(NCOEF + 1), m(NCOEF, 0.0), v(NCOEF, 0.0);
    std::vector<int> which;
    for (int step = 1; step <= steps; step++) {
        which.clear();
        for (int i = 0; i < batch; i++)
            which.push_back(int(drand() * n_train));
        cudaMemcpy(d_which, which.data(), batch * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(d_coef, coef.data(), NCOEF * sizeof(double), cudaMemcpyHostToDevice);
        config_gradient<<<batch, 64>>>(d_configs, d_which, d_coef, d_out);
        sum_configs<<<(NCOEF + 64) / 64, 64>>>(d_out, d_total, batch);
        cudaMemcpy(total.data(), d_total, (NCOEF + 1) * sizeof(double), cudaMemcpyDeviceToHost);

        double rate = 0.05 / (1 + 0.01 * step);
        for (int k = 0; k < NCOEF; k++) {
            double g = total[k] / batch;
            m[k] = 0.9 * m[k] + 0.1 * g;
            v[k] = 0.99 * v[k] + 0.01 * g * g;
            coef[k] -= rate * (m[k] / (1 - pow(0.9, step))) / (sqrt(v[k] / (1 - pow(0.99, step))) + 1e-8);
        }

        if (step % 25 == 0 || step == 1) {
            which.clear();
            for (int i = 0; i < n_test; i++)
                which.push_back(n_train + i);
            cudaMemcpy(d_which, which.data(), n_test * sizeof(int), cudaMemcpyHostToDevice);
            cudaMemcpy(d_coef, coef.data(), NCOEF * sizeof(double), cudaMemcpyHostToDevice);
            double train_rms = sqrt(total[NCOEF] / batch);
            config_gradient<<<n_test, 64>>>(d_configs, d_which, d_coef, d_out);
            sum_configs<<<(NCOEF + 64) / 64, 64>>>(d_out, d_total, n_test);
            cudaMemcpy(total.data(), d_total, (NCOEF + 1) * sizeof(double), cudaMemcpyDeviceToHost);
            printf("step %3d  rms error: batch %.4f, test %.4f\n", step, train_rms, sqrt(total[NCOEF] / n_test));
        }
    }
    return 0;
}
