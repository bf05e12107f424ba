/* A step of AdamW over all weights at a time: what torch's operations do in seven passes over memory, in one. */

#include <math.h>

static void step(const float *restrict w, const float *restrict gradient, const float *restrict m,
                 const float *restrict v, float *restrict new_w, float *restrict new_m, float *restrict new_v,
                 float keep, float scale, float epsilon, long weights) {
    for (long i = 0; i < weights; i++) {
        new_m[i] = m[i] + 0.1f * (gradient[i] - m[i]);
        new_v[i] = 0.999f * v[i] + 0.001f * gradient[i] * gradient[i];
        new_w[i] = keep * w[i] - scale * new_m[i] / (sqrtf(new_v[i]) + epsilon);
    }
}

/* The gradient lies in parts, of so many weights each. */
void adamw(const float *w, const float *const *gradient, const long *sizes, long parts, const float *m, const float *v,
           float *new_w, float *new_m, float *new_v, float keep, float scale, float epsilon) {
    for (long part = 0, at = 0; part < parts; at += sizes[part++])
        step(w + at, gradient[part], m + at, v + at, new_w + at, new_m + at, new_v + at, keep, scale, epsilon,
             sizes[part]);
}
