#ifndef SOLVER_H
#define SOLVER_H
#include "blob.h"

struct SolverParameter {
    float base_lr = 0.02f, momentum = 0.9f, weight_decay = 5e-4f, gamma = 0.5f;
    int stepsize = 30;
};

class SGDSolver {
public:
    SGDSolver(std::vector<BlobPtr> params, const SolverParameter &p);
    void applyUpdate(int iter);

private:
    std::vector<BlobPtr> params_;
    std::vector<BlobPtr> history_;
    SolverParameter p_;
};
#endif
