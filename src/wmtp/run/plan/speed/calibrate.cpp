#include "wmtp/run/plan/speed/calibrate.h"

namespace wmtp::run {

DeviceModel calibrate_cpu(int threads, double seconds) {
  (void)seconds;
  DeviceModel device = device_model("cpu");
  for (RateCurve* curve :
       {&device.products, &device.full_products, &device.attention_forward, &device.attention_backward})
    *curve = curve->scaled(threads);
  return device;
}

}  // namespace wmtp::run
