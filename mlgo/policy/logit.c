// The logit of one observation with the operations of exact.py in the same order, so to the same bit.

#include <math.h>
#include <stdint.h>

// NaN where float64 is too coarse to tell how a logarithm, whose last bits differ between libraries, is rounded.
static float scaled(int64_t number, float unit, float centre, float scale, float clip) {
  const float value = (float)((double)number / unit);
  const double size = log1p(fabs((double)value)), doubt = size * 0x1p-48;
  const float found = (copysignf((float)size, value) - centre) / scale;
  if ((float)(size - doubt) != (float)(size + doubt))
    return NAN;
  return found > clip ? clip : found < -clip ? -clip : found;
}

static void add_product(const float *input, const float *matrix, int inputs, int outputs, const int32_t *span,
                        float *restrict sums) {
  for (int i = 0; i < inputs; ++i, span += 2, matrix += outputs) {
    const float value = input[i];
    if (value != 0.0f) // half of all rectified units are 0
      for (int k = span[0]; k < span[1]; ++k)
        sums[k] += value * matrix[k];
  }
}

// Write for each input where its weights that are not 0 begin and end. Between members of an ensemble all are 0, and to
// read them would take the compiler's data out of the caches. Arguments are those of mlgo_logit.
void mlgo_spans(int32_t *sizes, const float *numbers) {
  const int num = sizes[0];
  const float *weights = numbers + 1 + 3 * num;
  int32_t *shape = sizes + 3 + num;
  for (int layer = 0; layer < sizes[1]; ++layer) {
    const int rows = shape[0] * shape[1], outputs = shape[2];
    int32_t *const spans = shape + 3;
    for (int i = 0; i < rows; ++i, weights += outputs) {
      int first = 0, end = outputs;
      while (first < end && weights[first] == 0.0f)
        ++first;
      while (first < end && weights[end - 1] == 0.0f)
        --end;
      spans[2 * i] = first, spans[2 * i + 1] = end;
    }
    weights += shape[0] * outputs;
    shape = spans + 2 * rows;
  }
}

// NaN says that exact.py has to be asked.
//   payload: the numbers of the observation
//   sizes: features, layers, most units of a layer; place of each feature; of each layer groups, inputs, outputs, and
//     for each input its first output with a weight that is not 0 and the one after the last
//   numbers: limit of inputs; units, centres, scales; of each layer the matrices of its groups and the bias
float mlgo_logit(const int64_t *payload, const int32_t *sizes, const float *numbers) {
  const int num = sizes[0], widest = sizes[2];
  const int32_t *column = sizes + 3, *shape = column + num;
  const float *unit = numbers + 1, *centre = unit + num, *scale = centre + num, *weights = scale + num;
  float units[2][widest], *from = units[0], *to = units[1], *swapped;
  for (int i = 0; i < num; ++i)
    if (isnan(from[i] = scaled(payload[column[i]], unit[i], centre[i], scale[i], *numbers)))
      return NAN;
  for (int left = sizes[1]; left-- > 0; swapped = from, from = to, to = swapped) {
    const int groups = shape[0], inputs = shape[1], outputs = shape[2];
    shape += 3;
    for (int k = 0; k < groups * outputs; ++k)
      to[k] = 0.0f;
    for (int g = 0; g < groups; ++g, weights += inputs * outputs, shape += 2 * inputs)
      add_product(from + g * inputs, weights, inputs, outputs, shape, to + g * outputs);
    for (int k = 0; k < groups * outputs; ++k) {
      to[k] += *weights++;
      to[k] = to[k] < 0.0f && left ? 0.0f : to[k];
    }
  }
  return *from;
}
