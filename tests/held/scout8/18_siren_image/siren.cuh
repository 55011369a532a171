#pragma once
#include <cstdint>

// Layout of the network in one flat array: 2 -> H -> H -> 1, sine activations.
constexpr int H = 24;
constexpr int W1 = 0;
constexpr int B1 = W1 + H * 2;
constexpr int W2 = B1 + H;
constexpr int B2 = W2 + H * H;
constexpr int W3 = B2 + H;
constexpr int B3 = W3 + H;
constexpr int NPARAM = B3 + 1;
constexpr float OMEGA = 6.0f;

__device__ __forceinline__ uint32_t pcg_hash(uint32_t v)
{
    uint32_t s = v * 747796405u + 2891336453u;
    uint32_t w = ((s >> ((s >> 28u) + 4u)) ^ s) * 277803737u;
    return (w >> 22u) ^ w;
}

__device__ __forceinline__ float hidden1(const float *th, float x, float y, int j) { return OMEGA * (th[W1 + 2 * j] * x + th[W1 + 2 * j + 1] * y + th[B1 + j]); }
