"""The picture of the usual ways of a lane, as the page of the lifecycle has it."""

from __future__ import annotations

from stenolog.projections.views.lifecycle_picture import lifecycle_picture as lifecycle_picture
