#ifndef BLOB_H
#define BLOB_H
#include <cstddef>
#include <cuda_runtime.h>
#include <memory>
#include <vector>

// N x C x H x W numbers on the device: the data and, when asked for, their gradient (diff).
class Blob {
public:
    Blob(int n, int c, int h, int w);
    ~Blob();
    Blob(const Blob &) = delete;
    Blob &operator=(const Blob &) = delete;

    int num, channels, height, width;
    int count() const { return num * channels * height * width; }
    int sample() const { return channels * height * width; }
    float *data() { return data_; }
    float *diff() { return diff_; }
    void fill(const std::vector<float> &host);

private:
    float *data_ = nullptr, *diff_ = nullptr;
};

using BlobPtr = std::shared_ptr<Blob>;

inline int blocks(int n) { return (n + 127) / 128; }
#endif
