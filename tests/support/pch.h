// The precompiled header of the tests that see LibTorch.
#pragma once
#include <gtest/gtest.h>

#include "wmtp/pch.h"
