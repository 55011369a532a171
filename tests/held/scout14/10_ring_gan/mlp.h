#ifndef MLP_H
#define MLP_H
#include <random>
#include <vector>

// A perceptron with leaky ReLU between its layers and nothing after the last. Each net has its own Adam.
class Mlp {
public:
    Mlp(const std::vector<int> &sizes, int capacity, std::mt19937 &rng);
    ~Mlp();

    float *forward(const float *input, int n);
    // grad: of the output. Returns the gradient of the input. With weights == false, only that.
    float *backward(const float *grad, int n, bool weights);
    void step(float rate);

private:
    struct Layer {
        int in, out;
        float *w, *b, *gw, *gb, *mw, *mb, *vw, *vb;
        float *y, *dx;
    };
    std::vector<Layer> layers_;
    const float *input_ = nullptr;
    int t_ = 0;
};
#endif
