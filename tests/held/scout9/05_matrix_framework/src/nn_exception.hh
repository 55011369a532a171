#pragma once
#include <cuda_runtime.h>
#include <exception>
#include <iostream>

class NNException : public std::exception {
    const char *message;

public:
    NNException(const char *message) : message(message) {}
    virtual const char *what() const throw() { return message; }
    static void throwIfDeviceErrorsOccurred(const char *message)
    {
        cudaError_t error = cudaGetLastError();
        if (error != cudaSuccess) {
            std::cerr << error << ": " << message;
            throw NNException(message);
        }
    }
};
