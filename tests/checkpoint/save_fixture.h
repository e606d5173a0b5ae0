// A store in memory with one folder for saves.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "support/crash_store.h"

namespace wmtp::checkpoint {

class Save : public testing::Test {
 protected:
  Save() { store.create_folder("/s"); }
  std::string names() const {
    std::string all;
    for (const auto& entry : store.list("/s")) all += entry.name + " ";
    return all;
  }
  test::CrashStore store;
};

}  // namespace wmtp::checkpoint
