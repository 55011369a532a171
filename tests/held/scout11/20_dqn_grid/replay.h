#pragma once
#include <cstdlib>
#include <cstring>

const int STATE = 18; // one-hot x, one-hot y, one-hot of the goal column
const int ACTIONS = 4;

typedef struct {
    float s[STATE];
    float s2[STATE];
    int action;
    float reward;
    float not_done;
} transition_t;

class ReplayBuffer {
public:
    explicit ReplayBuffer(int capacity) : buf(new transition_t[capacity]), capacity(capacity), size(0), head(0) {}
    ~ReplayBuffer() { delete[] buf; }
    void push(const transition_t &t)
    {
        buf[head] = t;
        head = (head + 1) % capacity;
        if (size < capacity) size++;
    }
    const transition_t &sample() const { return buf[rand() % size]; }
    int count() const { return size; }

private:
    transition_t *buf;
    int capacity, size, head;
};

// 6x6 grid; reach the bottom row at the goal column
struct GridWorld {
    int x, y, goal, age;
    void reset()
    {
        x = rand() % 6;
        y = rand() % 3;
        goal = rand() % 6;
        age = 0;
    }
    void observe(float *s) const
    {
        memset(s, 0, STATE * sizeof(float));
        s[x] = s[6 + y] = s[12 + goal] = 1;
    }
    float act(int a, bool &done)
    {
        if (a == 0 && x > 0) x--;
        if (a == 1 && x < 5) x++;
        if (a == 2 && y > 0) y--;
        if (a == 3 && y < 5) y++;
        age++;
        done = y == 5 || age >= 24;
        if (y == 5) return x == goal ? 1.f : -1.f;
        return -0.02f;
    }
};
