// The precompiled header of the tests that see LibTorch.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "wmtp/pch.h"
