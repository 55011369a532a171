// The network must report the sum of the first input and the second input of two
// steps earlier, at every step.
#include "rnn.h"
#include <cstdio>
#include <random>

int main()
{
    Shape s = {12, 32, 2, 24, 1};
    std::mt19937 gen(314);
    std::uniform_real_distribution<float> u(-1, 1);
    Rnn net(s, 271);
    AdamClip opt(net.slots(), 0.005f, 0.5f);

    std::vector<float> x(s.steps * s.batch * s.input), target(s.steps * s.batch * s.output);
    float running = 0;
    for (int it = 1; it <= 300; ++it) {
        for (float &v : x) v = u(gen);
        for (int t = 0; t < s.steps; ++t)
            for (int b = 0; b < s.batch; ++b) {
                float a = x[(t * s.batch + b) * 2], c = t >= 2 ? x[((t - 2) * s.batch + b) * 2 + 1] : 0;
                target[t * s.batch + b] = 0.5f * (a + c);
            }
        float loss = net.gradients(x.data(), target.data());
        opt.apply();
        running += loss;
        if (it % 20 == 0) {
            std::printf("it %d mse %.6f\n", it, running / 20);
            running = 0;
        }
    }

    if (FILE *f = std::fopen("rnn.txt", "w")) {
        for (Slot &p : net.slots()) std::fprintf(f, "%s %d\n", p.name, p.size);
        std::fclose(f);
    }
    return 0;
}
