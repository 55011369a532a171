#pragma once
#include <vector>

class LogisticRegression {
public:
    LogisticRegression(int n_features, float learning_rate, int batch_size);
    ~LogisticRegression();
    LogisticRegression(const LogisticRegression&) = delete;

    // X is row major, y holds 0 or 1
    void fit(const std::vector<float>& X, const std::vector<float>& y, int epochs);
    std::vector<float> predict_proba(const std::vector<float>& X);
    float score(const std::vector<float>& X, const std::vector<float>& y);

private:
    int n_features_;
    float learning_rate_;
    int batch_size_;

    float* d_weights_ = nullptr;
    float* d_bias_ = nullptr;
    float* d_grad_weights_ = nullptr;
    float* d_grad_bias_ = nullptr;
};
