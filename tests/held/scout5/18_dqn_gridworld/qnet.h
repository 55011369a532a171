#pragma once

// Q network: state -> hidden (ReLU) -> one value for each action. All parameters in one block of memory.
struct QNet {
    static constexpr int S = 50, H = 32, A = 4; // 25 cells for the agent, 25 for the goal
    static constexpr int W1 = 0, B1 = W1 + S * H, W2 = B1 + H, B2 = W2 + H * A, TOTAL = B2 + A;
    float *theta;
    explicit QNet(unsigned seed);
    ~QNet();
    void copy_from(const QNet &other);
};

struct Transition {
    int agent, goal, action, next;
    float reward;
    bool done;
};

class Learner {
public:
    Learner(QNet &online, QNet &target, int batch, float gamma, float lr);
    ~Learner();
    float learn(const Transition *sample); // one step with `batch` transitions, returns the mean TD loss
    int greedy(int agent, int goal);

private:
    QNet &online_, &target_;
    int batch_, t_ = 0;
    float gamma_, lr_;
    float *grad_, *m_, *v_, *hidden_, *delta_, *loss_, *q_;
    Transition *sample_;
};
