# SPDX-License-Identifier: Apache-2.0
set(tenon_with_cuda OFF)
