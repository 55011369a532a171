#pragma once
#include <cuda_runtime.h>
#include <exception>

class NNException : public std::exception {
    const char *exception_message;

public:
    NNException(const char *m) : exception_message(m) {}
    const char *what() const noexcept override { return exception_message; }
    static void throwIfDeviceErrorsOccurred(const char *message)
    {
        if (cudaGetLastError() != cudaSuccess)
            throw NNException(message);
    }
};
