#pragma once
#include <cstddef>
#include <memory>

struct Shape {
    size_t x, y; // features, samples
    Shape(size_t x = 1, size_t y = 1) : x(x), y(y) {}
};

class Matrix {
    bool allocated = false;
public:
    Shape shape;
    std::shared_ptr<float> data_device;
    std::shared_ptr<float> data_host;

    Matrix(size_t x_dim = 1, size_t y_dim = 1);
    explicit Matrix(Shape shape);
    void allocateMemory();
    void allocateMemoryIfNotAllocated(Shape shape);
    void copyHostToDevice();
    void copyDeviceToHost();
    float& operator[](int i) { return data_host.get()[i]; }
    const float& operator[](int i) const { return data_host.get()[i]; }
};
void throwIfDeviceErrorsOccurred(const char* message);
