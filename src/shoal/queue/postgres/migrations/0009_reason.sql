-- Why a run ended with tasks left; its state is then 'partial'.
ALTER TABLE shoal.run ADD COLUMN IF NOT EXISTS reason text NOT NULL DEFAULT '';
