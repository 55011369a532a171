#pragma once
#include <cstddef>
#include <memory>

struct Shape {
    size_t x, y;
    Shape(size_t x = 1, size_t y = 1) : x(x), y(y) {}
};

// column-wise: x is the number of samples, y the number of features
class Matrix {
    bool device_allocated = false;
    bool host_allocated = false;
    void allocateCudaMemory();
    void allocateHostMemory();

public:
    Shape shape;
    std::shared_ptr<float> data_device;
    std::shared_ptr<float> data_host;

    Matrix(size_t x_dim = 1, size_t y_dim = 1);
    Matrix(Shape shape);

    void allocateMemory();
    void allocateMemoryIfNotAllocated(Shape shape);
    void copyHostToDevice();
    void copyDeviceToHost();

    float &operator[](const int index) { return data_host.get()[index]; }
    const float &operator[](const int index) const { return data_host.get()[index]; }
};
