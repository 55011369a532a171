#ifndef MODEL_H
#define MODEL_H
#include <vector>

struct Rating {
    int user;
    int item;
    float value;
};

struct Hyper {
    int users, items, factors;
    float lr, reg;
    int batch;
};

class MatrixFactorization {
public:
    explicit MatrixFactorization(const Hyper &hp);
    ~MatrixFactorization();
    // one step of mini-batch gradient descent; returns the sum of squared errors
    double fitBatch(const std::vector<Rating> &data, const std::vector<int> &order, int begin, int end);
    double rmse(const std::vector<Rating> &data);
    void setMean(float m) { mean = m; }
    void decay(float f) { hp.lr *= f; }

private:
    Hyper hp;
    float mean = 0.f;
    float *P, *Q, *bu, *bi;      // factors and biases
    float *gP, *gQ, *gbu, *gbi;
    Rating *staging, *d_batch;   // pinned, device
    float *d_err, *h_err;
};
#endif
