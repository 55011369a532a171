/*
 * small.h - what main.cpp, which g++ compiles, knows of the framework: net.cuh has the layers, solver.cu trains them.
 */
struct options {
    bool is_double = false, batch_means = false;
    int batch = 30, steps = 40, rank = 0, count = 1;
    double clip = 0.6; /* gradients with a larger norm are scaled to it; 0: never */
    const char *save = nullptr;
};

template <class T> int train(const options &options);
