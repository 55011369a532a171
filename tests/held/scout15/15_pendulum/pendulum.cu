// Learns the dynamics of a damped, driven pendulum: (angle, speed, torque) -> change of (angle, speed).
#include "dense.cuh"
#include <cstdio>

typedef double real;

__global__ void squaredError(const real *pred, const real *target, real *delta, real *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    real sum = 0;
    for (int k = 0; k < 2; ++k) {
        real e = pred[2 * i + k] - target[2 * i + k];
        delta[2 * i + k] = 2 * e;
        sum += e * e;
    }
    loss[i] = sum;
}

int main() {
    const int trajectories = 11, length = 80, samples = trajectories * length, batch = 44, epochs = 3;
    std::mt19937 rng(6);
    std::uniform_real_distribution<double> uni(-1, 1);
    std::vector<real> state, change;
    for (int k = 0; k < trajectories; ++k) {
        double angle = 2 * uni(rng), speed = uni(rng);
        for (int t = 0; t < length; ++t) {
            double torque = uni(rng), h = 0.1;
            double acc = -std::sin(angle) - 0.1 * speed + torque;
            state.insert(state.end(), {angle, speed, torque});
            change.insert(change.end(), {10 * h * speed, 10 * h * acc});
            angle += h * speed;
            speed += h * acc;
        }
    }

    Buffer<real> x(samples * 3), target(samples * 2), delta(batch * 2), loss(batch);
    cudaMemcpy(x.data, state.data(), state.size() * sizeof(real), cudaMemcpyHostToDevice);
    cudaMemcpy(target.data, change.data(), change.size() * sizeof(real), cudaMemcpyHostToDevice);

    Dense<real, Tanh> first(3, 24, batch, rng), second(24, 16, batch, rng);
    Dense<real, Identity> last(16, 2, batch, rng);

    std::vector<real> l(batch);
    for (int epoch = 0; epoch < epochs; ++epoch) {
        real total = 0;
        for (int at = 0; at + batch <= samples; at += batch) {
            const real *y = last.forward(second.forward(first.forward(x.data + at * 3, batch), batch), batch);
            squaredError<<<blocksFor(batch), 128>>>(y, target.data + at * 2, delta.data, loss.data, batch);
            first.backward(second.backward(last.backward(delta.data, batch), batch), batch);
            const real lr = epoch < 2 ? 0.005 : 0.002;
            first.update(lr);
            second.update(lr);
            last.update(lr);
            cudaMemcpy(l.data(), loss.data, batch * sizeof(real), cudaMemcpyDeviceToHost);
            for (real v : l) total += v / batch;
        }
        std::printf("epoch %d: mean squared error %.6f\n", epoch, total / (samples / batch));
    }
    return 0;
}
