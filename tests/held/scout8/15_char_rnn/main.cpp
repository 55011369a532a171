// Character level RNN on a small text, after Karpathy's min-char-rnn. BATCH_SIZE readers walk
// through the text at evenly spaced places.
#include "rnn.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

static std::string text()
{
    const char *subjects[] = {"the cat", "a dog", "my friend", "the old man", "a small bird"};
    const char *verbs[] = {" sees ", " likes ", " follows ", " finds "};
    const char *objects[] = {"the moon", "a red ball", "the river", "some bread", "a house"};
    std::string s;
    for (int i = 0; i < 300; i++) {
        s += subjects[rand() % 5];
        s += verbs[rand() % 4];
        s += objects[rand() % 5];
        s += ".\n";
    }
    return s;
}

int main()
{
    srand(10);
    std::string data = text();
    std::string chars = data;
    std::sort(chars.begin(), chars.end());
    chars.erase(std::unique(chars.begin(), chars.end()), chars.end());
    int vocab = (int)chars.size();
    std::printf("data has %zu characters, %d unique.\n", data.size(), vocab);

    std::vector<int> ids(data.size());
    for (size_t i = 0; i < data.size(); i++) ids[i] = (int)chars.find(data[i]);

    rnn net;
    rnn_create(&net, vocab);
    std::vector<size_t> pos(BATCH_SIZE);
    for (int b = 0; b < BATCH_SIZE; b++) pos[b] = b * (data.size() / BATCH_SIZE);
    int inputs[SEQ_LENGTH][BATCH_SIZE], targets[SEQ_LENGTH][BATCH_SIZE];
    float smooth_loss = -std::log(1.0f / vocab) * SEQ_LENGTH;
    for (int n = 0; n <= 100; n++) {
        for (int b = 0; b < BATCH_SIZE; b++)
            for (int t = 0; t < SEQ_LENGTH; t++) {
                inputs[t][b] = ids[pos[b]];
                pos[b] = (pos[b] + 1) % ids.size();
                targets[t][b] = ids[pos[b]];
            }
        float loss = rnn_lossfun(&net, &inputs[0][0], &targets[0][0]) / BATCH_SIZE;
        smooth_loss = smooth_loss * 0.95f + loss * 0.05f;
        if (n % 10 == 0) std::printf("iter %d, loss: %f (smooth %f)\n", n, loss, smooth_loss);
        rnn_adagrad(&net, 0.08f);
    }
    rnn_destroy(&net);
    return 0;
}
