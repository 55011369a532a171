#pragma once

namespace gridfit {

constexpr int kLevels = 3;
constexpr int kFeatures = 2;                       // of each grid vertex
constexpr int kResolution[kLevels] = {4, 8, 16};
constexpr int kEncoded = kLevels * kFeatures;
constexpr int kHidden = 16;
constexpr int kChannels = 3;

constexpr int vertices(int level) { return (kResolution[level] + 1) * (kResolution[level] + 1); }
constexpr int grid_size() { return (vertices(0) + vertices(1) + vertices(2)) * kFeatures; }

struct Mlp {
    float w1[kEncoded][kHidden];
    float b1[kHidden];
    float w2[kHidden][kChannels];
    float b2[kChannels];
};

struct Pixel {
    float u, v;          // 0..1
    float color[kChannels];
};

} // namespace gridfit
