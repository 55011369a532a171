// nn.h - public interface of the little layer library
#ifndef NN_H
#define NN_H
#include <string>
#include <vector>

namespace nn {

struct Parameter {
    std::string name;
    float *value;
    float *gradient;
    int count;
};

class Module {
public:
    virtual ~Module() {}
    virtual const float *forward(const float *input, int batch) = 0;
    // takes d(loss)/d(output), returns d(loss)/d(input)
    virtual const float *backward(const float *gradOutput, int batch) = 0;
    virtual void collect(std::vector<Parameter> &) {}
};

Module *conv1d(const std::string &name, int inChannels, int outChannels, int length, int kernel, int maxBatch);
Module *relu(int width, int maxBatch);
Module *meanPool(int channels, int length, int maxBatch);
Module *dense(const std::string &name, int in, int out, int maxBatch);

// returns the mean loss, writes d(loss)/d(logits)
float crossEntropy(const float *logits, const int *labels, float *gradLogits, int batch, int classes);

class Adam {
public:
    Adam(const std::vector<Parameter> &params, float lr, float beta1 = 0.9f, float beta2 = 0.999f);
    ~Adam();
    void zeroGrad();
    void step();

private:
    std::vector<Parameter> params_;
    std::vector<float *> m_, v_;
    float lr_, beta1_, beta2_;
    int t_;
};

}  // namespace nn
#endif
