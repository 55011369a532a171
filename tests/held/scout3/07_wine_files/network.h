#pragma once
#include <utility>
#include <vector>

struct Config {
    int batch_size = 75;
    int epochs = 12;
    int hidden = 28;
    float lr = 0.2f;
    float decay = 0.95f;
};

struct Dataset {
    int rows = 0, features = 0, classes = 0;
    std::vector<float> x;
    std::vector<int> y;
    float *d_x = nullptr;
    int *d_y = nullptr;
    void upload();
    void release();
};

Dataset make_wine(int rows, unsigned seed);
void standardize(Dataset &d);

// ops.cu
void launch_dense(const float *x, const float *w, const float *b, float *y, int m, int k, int n);
void launch_dense_grad(const float *x, const float *dy, float *dw, float *db, int m, int k, int n);
void launch_dense_input_grad(const float *dy, const float *w, float *dx, int m, int k, int n);
void launch_elu(float *a, int n);
void launch_elu_grad(const float *a, float *d, int n);
void launch_loss(const float *z, const int *y, float *dz, float *stats, int m, int n);
void launch_sgd(float *w, const float *g, float lr, int n);

class Network {
public:
    Network(int in, int hidden, int out, int max_rows);
    ~Network();
    void forward(const float *x, int rows);
    void backward(const float *x, const int *y, int rows);
    void step(float lr);
    void score(const int *y, int rows);
    void reset_stats();
    std::pair<float, int> stats() const;   // summed loss, number correct

private:
    int in_, hid_, out_;
    float *w1_, *b1_, *w2_, *b2_;
    float *gw1_, *gb1_, *gw2_, *gb2_;
    float *a1_, *z_, *da1_, *dz_;
    float *stats_;
};
