#pragma once
#include <exception>
#include <iostream>
#include <cuda_runtime.h>

class NNException : public std::exception {
    const char *exception_message;

public:
    NNException(const char *exception_message) : exception_message(exception_message) {}
    const char *what() const noexcept override { return exception_message; }
    static void throwIfDeviceErrorsOccurred(const char *exception_message)
    {
        cudaError_t error = cudaGetLastError();
        if (error != cudaSuccess) {
            std::cerr << error << ": " << exception_message;
            throw NNException(exception_message);
        }
    }
};
