// The precompiled header of the tests without LibTorch.
#pragma once
#include <gtest/gtest.h>

#include "wmtp/plain_pch.h"
