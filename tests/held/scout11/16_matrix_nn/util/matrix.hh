#pragma once
#include <cstddef>
#include <memory>

struct Shape {
    size_t x, y;
    Shape(size_t x = 1, size_t y = 1) : x(x), y(y) {}
};

class Matrix {
    bool device_allocated = false;
    bool host_allocated = false;
    std::shared_ptr<float> data_device;
    std::shared_ptr<float> data_host;

    void allocateCudaMemory();
    void allocateHostMemory();

public:
    Shape shape;

    Matrix(size_t x_dim = 1, size_t y_dim = 1);
    explicit Matrix(Shape shape);

    void allocateMemory();
    void allocateMemoryIfNotAllocated(Shape shape);
    void copyHostToDevice();
    void copyDeviceToHost();
    float *device() const { return data_device.get(); }

    float &operator[](const int index) { return data_host.get()[index]; }
    const float &operator[](const int index) const { return data_host.get()[index]; }
};
