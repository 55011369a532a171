#pragma once
#include <vector>
class HostAdam {
public:
    HostAdam(int n, double lr) : lr_(lr), m_(n), v_(n), t_(0) {}
    void step(std::vector<double> &x, const std::vector<double> &g);
private:
    double lr_;
    std::vector<double> m_, v_;
    int t_;
};
