// What tests tell the libraries of fake_nvml.cpp, and hear from them.
#pragma once

namespace wmtp::test {

struct FakeNvml {
  const char* uuid = "GPU-00112233-4455-6677-8899-aabbccddeeff";
  int init_status = 0;
  int status = 0;                  // of every call about the GPU
  int calls_until_lost = 0;        // above 0: the GPU is lost at that call
  unsigned long long reasons = 0;  // that slow it down
  unsigned long long ecc = 0;      // uncorrected errors since the driver was loaded
  const char* driver = "580.65.06";
  int major = 9, minor = 0;  // compute capability
  int num_inits = 0, num_shutdowns = 0, num_calls = 0;
};

}  // namespace wmtp::test

extern "C" wmtp::test::FakeNvml* fake_nvml();
